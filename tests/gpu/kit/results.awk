# SPDX-License-Identifier: MIT
# results.awk STEPS BARS: the results as Markdown: each bar, met or not, and how each step ended. -v
# identity=: GPU and driver
BEGIN {
	FS = "\t"
	print "# Results\n\n" identity "\n"
}
function cell(text) { gsub(/\|/, "\\|", text); return text }
FNR == 1 { file++ }
file == 1 { step[++steps] = "| " cell($1) " | " cell($2) " | " $3 " | " cell($4) " |"; next }
{ bar[++bars] = "| " cell($1) " | " cell($2) " | " cell($3) " | " $4 " |" }
END {
	if (bars) {
		print "| bar | wanted | found | |\n|---|---|---|---|"
		for (i = 1; i <= bars; i++)
			print bar[i]
		print ""
	}
	print "| step | ended | seconds | last words |\n|---|---|---|---|"
	for (i = 1; i <= steps; i++)
		print step[i]
}
