# SPDX-License-Identifier: MIT
# Turns lines "ROW LIBRARY VALUE" into a table: the median and the range of each row under each
# library.

{
	if (!($1 in seen)) {
		seen[$1] = 1
		order[++rows] = $1
	}
	if ($3 == "failed") {
		failed[$1, $2]++
		next
	}
	at = ++count[$1, $2]
	for (value = $3 + 0; at > 1 && sample[$1, $2, at - 1] > value; at--)
		sample[$1, $2, at] = sample[$1, $2, at - 1]
	sample[$1, $2, at] = value
}

function number(value) {
	return value >= 1000 ? sprintf("%.0f", value) : value >= 100 ? sprintf("%.0f", value) : value >= 10 ? sprintf("%.1f", value) : sprintf("%.2f", value)
}

function cell(row, library,    n, text) {
	n = count[row, library]
	if (n)
		text = number(sample[row, library, int((n + 1) / 2)]) " [" number(sample[row, library, 1]) "-" number(sample[row, library, n]) "]"
	if (failed[row, library])
		text = text (text ? ", " : "") failed[row, library] " failed"
	return text
}

END {
	columns = split(libraries, library, " ")
	printf "%-26s", "median [range]"
	for (c = 1; c <= columns; c++)
		printf " %-24s", library[c]
	print ""
	for (r = 1; r <= rows; r++) {
		line = sprintf("%-26s", order[r])
		for (c = 1; c <= columns; c++)
			line = line sprintf(" %-24s", cell(order[r], library[c]))
		sub(/ +$/, "", line)
		print line
	}
}
