# SPDX-License-Identifier: MIT
# Prints a table of tests/bench/engines from samples "ROW WAY FIELD VALUE", as medians.
# table: steps, engines or pairs
function median(key) { return median_of(values[key]) }
# Returns the work of one way in percent of another's: the median of the rounds' ratios.
function of_way(way, before, fields, ratios) {
	ratios = ratios_of(way, before, fields)
	return ratios ? sprintf("%.1f %%", median_of(ratios)) : ""
}
function ratios_of(way, before, fields, n, m, i, j, names, one, other, a, b, ratios) {
	m = split(fields, names, " ")
	n = split(values[way names[1]], one, " ")
	for (i = 1; i <= n; i++) {
		a = b = 0
		for (j = 1; j <= m; j++) {
			split(values[way names[j]], one, " ")
			split(values[before names[j]], other, " ")
			a += one[i]
			b += other[i]
		}
		if (b)
			ratios = ratios " " 100 * a / b
	}
	return ratios
}
function median_of(list, n, sorted) {
	n = sort(list, sorted)
	return n ? sorted[int((n + 1) / 2)] : 0
}
# Returns the median with its 95 % interval, from the k-th lowest to the k-th highest sample. Fewer
# than k of n samples lie above the true median in 2.5 % of all draws at most, and as often below.
function interval_of(list, n, k, below, term, sorted) {
	n = sort(list, sorted)
	term = 0.5 ^ n
	for (k = 0; below + term <= 0.025; k++) {
		below += term
		term *= (n - k) / (k + 1)
	}
	if (!k)
		return sprintf("%.1f %% (too few pairs)", median_of(list))
	return sprintf("%.1f %% [%.1f, %.1f]", median_of(list), sorted[k], sorted[n + 1 - k])
}
function sort(list, sorted, n, i, j, v) {
	n = split(list, sorted, " ")
	for (i = 2; i <= n; i++) {
		v = sorted[i]
		for (j = i - 1; j > 0 && sorted[j] + 0 > v + 0; j--)
			sorted[j + 1] = sorted[j]
		sorted[j + 1] = v
	}
	return n
}
BEGIN { FS = "\t" }
{
	if (!(($1, $2) in seen)) {
		seen[$1, $2] = 1
		line[++lines] = $1 SUBSEP $2
	}
	values[$1, $2, $3] = values[$1, $2, $3] " " $4
}
END {
	if (table == "steps")
		print "| busy alone | way | work | from half | of no shares | p99 of a step | of no shares |\n|---|---|---|---|---|---|---|"
	else if (table == "pairs")
		print "| mode, requests | of | equal weights have | pairs |\n|---|---|---|---|"
	else
		print "| mode, requests | way | kept | of no shares | each | first token | between tokens | p99 |\n|---|---|---|---|---|---|---|---|"
	for (i = 1; i <= lines; i++) {
		split(line[i], part, SUBSEP)
		key = line[i] SUBSEP
		none = part[1] SUBSEP "none" SUBSEP
		if (table == "pairs") {
			equal = part[1] SUBSEP "equal" SUBSEP
			if (part[2] != "equal")
				printf "| %s | %s | %s | %d |\n", part[1], part[2],
					interval_of(ratios_of(equal, key, "tokens")), split(values[key "tokens"], all, " ")
			continue
		}
		if (table == "steps") {
			if (part[2] == "alone")
				continue
			sum = median(key "sum"); slow = median(key "slow")
			printf "| %.0f %% | %s | %.1f | %.1f | %s | %.1f | %s |\n", median(part[1] SUBSEP "alone" SUBSEP "busy"), part[2], sum,
				median(key "apart"), of_way(key, none, "sum"),
				slow, median(none "slow") ? sprintf("%.2f", slow / median(none "slow")) : ""
			continue
		}
		a = median(key "kept_a"); b = median(key "kept_b"); kept = b ? (a + b) / 2 : a
		printf "| %s | %s | %.1f %% | %s | %s | %.0f | %.0f | %.0f |\n", part[1], part[2], kept,
			part[2] !~ /^(alone|guaranteed)$/ ? of_way(key, none, "kept_a kept_b") : "",
			b ? sprintf("%.1f, %.1f", a, b) : "", median(key "ttft_us") / 1000, median(key "tbt_us") / 1000,
			median(key "tbt_p99_us") / 1000
	}
}
