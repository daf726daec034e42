# SPDX-License-Identifier: MIT
# Compares the results of two benches: reads the JSON of tests/bench/run, files named base-N.json
# and now-N.json, one row a line. A row is slower (faster) when the median of now lies above (below)
# everything that base has shown.

function field(name) {
	if (!match($0, "\"" name "\": (\"[^\"]*\"|[-0-9.]+)"))
		return ""
	text = substr($0, RSTART, RLENGTH)
	sub(/^"[^"]*": /, "", text)
	gsub(/"/, "", text)
	return text
}

FNR == 1 {
	side = FILENAME
	sub(/.*\//, "", side)
	sub(/-.*/, "", side)
}

/"measure": / {
	row = sprintf("%-6s %-20s %-13s", field("driver"), field("measure"), field("variant"))
	if (!(row in seen)) {
		seen[row] = 1
		order[++rows] = row
	}
	at = ++count[side, row]
	# kept sorted
	for (value = field("ns") + 0; at > 1 && sample[side, row, at - 1] > value; at--)
		sample[side, row, at] = sample[side, row, at - 1]
	sample[side, row, at] = value
}

function median(side, row,    n) {
	n = count[side, row]
	return n % 2 ? sample[side, row, (n + 1) / 2] : (sample[side, row, n / 2] + sample[side, row, n / 2 + 1]) / 2
}

END {
	printf "%-41s %12s %12s %7s  %s\n", "driver measure              variant", "base ns", "now ns", "ratio", "base's own spread"
	for (i = 1; i <= rows; i++) {
		row = order[i]
		if (!count["base", row] || !count["now", row]) {
			only[count["base", row] ? "base" : "now"] = only[count["base", row] ? "base" : "now"] "\n  " row
			continue
		}
		base = median("base", row)
		now = median("now", row)
		least = sample["base", row, 1]
		most = sample["base", row, count["base", row]]
		verdict = ""
		if (count["base", row] < 3) {
			verdict = "(too few runs to judge)"
		} else if (now > most) {
			verdict = "slower"
			slower++
		} else if (now < least) {
			verdict = "faster"
			faster++
		}
		compared++
		if (base)
			printf "%s %12.1f %12.1f %7.3f  %.3f to %.3f  %s\n", row, base, now, now / base, least / base, most / base, verdict
	}
	for (side in only)
		printf "in %s alone:%s\n", side, only[side]
	printf "%d rows compared: %d slower than their spread, %d faster\n", compared, slower, faster
	exit slower || !compared
}
