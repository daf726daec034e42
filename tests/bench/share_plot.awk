# SPDX-License-Identifier: MIT
# Turns lines "LOAD <tab> SHARE SET <tab> HELD <tab> LEAST <tab> MOST ..." into an SVG. It shows the
# share set against the share held, a point for each load. A line through the point has the least
# and the most over any 5 s. Hollow: the load wanted less. It follows light and dark.
BEGIN { FS = "\t"; size = 300; left = 46; top = 14 }

function x(share) { return left + share / 100 * size }
function y(share) { return top + size - share / 100 * size }

{
	if (!seen[$1]++)
		loads++
	set[NR] = $2; held[NR] = $3; least[NR] = $4; most[NR] = $5; load[NR] = $1; full[NR] = $8
	error = $6 > error ? $6 : error
}

END {
	width = left + size + 16; height = top + size + 60
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\"", width, height, width, height
	printf " aria-label=\"Share of GPU time set against share held: all loads are near the diagonal, %.1f points from it at most over any 5 s\">\n", error
	print "<style>"
	print "text { font: 12px sans-serif; fill: #59636e } .axis { stroke: #8c959f; fill: none } .grid { stroke: #8c959f; stroke-opacity: .25 }"
	print ".even { stroke: #8c959f; stroke-dasharray: 4 3 } .held { fill: #0969da; fill-opacity: .5 } .less { fill: none; stroke: #0969da } .span { stroke: #0969da; stroke-opacity: .75 }"
	print "@media (prefers-color-scheme: dark) { text { fill: #9da7b3 } .held { fill: #58a6ff } .span, .less { stroke: #58a6ff } }"
	print "</style>"
	for (share = 0; share <= 100; share += 25) {
		printf "<path class=\"grid\" d=\"M%g %gV%gM%g %gH%g\"/>\n", x(share), y(0), y(100), x(0), y(share), x(100)
		printf "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%d</text>\n", x(share), y(0) + 16, share
		printf "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%d</text>\n", x(0) - 6, y(share) + 4, share
	}
	printf "<path class=\"axis\" d=\"M%g %gV%gH%g\"/>\n", x(0), y(100), y(0), x(100)
	printf "<path class=\"even\" d=\"M%g %gL%g %g\"/>\n", x(0), y(0), x(100), y(100)
	for (i = 1; i <= NR; i++) {
		printf "<g><title>%s: %g %% set, %g %% held, %g to %g over any 5 s</title>", load[i], set[i], held[i], least[i], most[i]
		printf "<path class=\"span\" d=\"M%.1f %.1fV%.1f\"/>", x(set[i]), y(least[i]), y(most[i])
		printf "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/></g>\n", (set[i] > full[i] ? "less" : "held"), x(set[i]), y(held[i])
		less += (set[i] > full[i])
	}
	printf "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">share set, %% of GPU time</text>\n", x(50), y(0) + 34
	printf "<text x=\"14\" y=\"%g\" text-anchor=\"middle\" transform=\"rotate(-90 14 %g)\">share held</text>\n", y(50), y(50)
	printf "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%d loads; farthest over any 5 s: %.1f points%s</text>\n", x(50), y(0) + 51, loads, error, (less ? "; hollow: wanted less" : "")
	print "</svg>"
}
