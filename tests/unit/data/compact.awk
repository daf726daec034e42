# SPDX-License-Identifier: MIT
# Makes a trace for tests/unit/trace.h of the software GPU's lines (SOFTGPU_TRACE) and of the
# program's own marks ("NS mark DURATION_NS"), sorted by time. Tokens: FUNCTION[:SHAPE]+US a launch,
# so long after the one before, the shape where the function's is another than before; =US a step
# ended with the launch before, and took so long. -v closer=NAME: no marks; a step ends with each
# launch of that kernel, and took what lies between. -v mean=MS: @US, the program's own mean.
function put(token) {
	if (length(line) + length(token) > 118) {
		print line
		line = ""
	}
	line = line (line == "" ? "" : " ") token
}
function us(ns) {
	return int(ns / 1000 + 0.5)
}
$2 == "mark" {
	put("=" us($3))
	next
}
{
	if (!($2 in functions))
		functions[$2] = ++function_count
	if (!($3 in shapes))
		shapes[$3] = ++shape_count
	if (!start)
		start = last = $1 - 1000
	token = functions[$2]
	if (shape_of[$2] != $3)
		token = token ":" shapes[$3]
	shape_of[$2] = $3
	# Rounded sums, so that nothing adds up.
	put(token "+" (us($1 - start) - us(last - start)))
	last = $1
	if (closer != "" && $4 == closer) {
		put("=" (before ? us($1 - before) : 0))
		before = $1
	}
}
END {
	if (mean != "")
		put("@" us(mean * 1000000))
	print line
}
