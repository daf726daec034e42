# SPDX-License-Identifier: MIT
# Turns lines "DRIVER VARIANT MEASURE NS" into a table of medians against the variant "direct", and
# into JSON where the variable `json` names a file. "DRIVER VARIANT device NAME" names the device.

$3 == "device" {
	name = $0
	sub(/^[^ ]* [^ ]* device /, "", name)
	device[$1] = name
	next
}

{
	key = $1 SUBSEP $3
	if (!(key in seen)) {
		seen[key] = 1
		order[++keys] = key
	}
	sample[key, $2, ++count[key, $2]] = $4
}

function median(key, variant,    n, i, j, held, sorted) {
	n = count[key, variant]
	for (i = 1; i <= n; i++) {
		held = sample[key, variant, i]
		for (j = i; j > 1 && sorted[j - 1] > held; j--)
			sorted[j] = sorted[j - 1]
		sorted[j] = held
	}
	return sorted[int((n + 1) / 2)]
}

function quote(text) {
	gsub(/[\\"]/, "\\\\&", text)
	return "\"" text "\""
}

# What DESIGN asks for: "+ns" more than direct, "=ns" in all, "x" of direct ("X": anywhere),
# "/MEASURE": as that one, "<VARIANT X": at most X times that one, 1.01 without X,
# "#N": of a million.
function set_bars(    i, n, live, kind) {
	bar["null", "launch", "spillway"] = "+10"
	bar["null", "launch_50us", "paced"] = bar["gpu", "launch_50us", "paced"] = "+150"
	bar["null", "launch_50us_legacy", "paced"] = bar["gpu", "launch_50us_legacy", "paced"] = "+150"
	bar["null", "launch_50us", "spillway"] = "+10"
	bar["null", "alloc_free_4KiB", "spillway"] = bar["null", "alloc_free_4KiB", "limited"] = "=300"
	bar["null", "alloc_free_256KiB", "spillway"] = bar["null", "alloc_free_256KiB", "limited"] = "=300"
	bar["gpu", "alloc_free_1GiB", "limited"] = "x1.5"
	bar["gpu", "cold_1GiB", "limited"] = "x5"
	bar["null", "launch_1_thread", "surveyed"] = bar["null", "launch_8_threads", "surveyed"] = "<unspilled 1.2"
	bar["start", "process_start", "spillway"] = "X1.08"
	bar["start", "process_start", "any-glibc"] = "X1.15"
	n = split("spillway named limited paced", live, " ")
	for (i = 1; i <= n; i++)
		bar["gpu", "init", live[i]] = "+600000"
	n = split("shrink promote evict resume", live, " ")
	split("1024 4096", kind, " ")
	for (i = 1; i <= 2 * n; i++) {
		name = live[i > n ? i - n : i] "_" kind[i > n ? 2 : 1] "MiB_"
		bar["gpu", name "waits", "fast"] = "X1.3"
		bar["gpu", name "never", "fast"] = "X1.6"
		bar["gpu", name "waits", "gentle"] = bar["gpu", name "never", "gentle"] = "X2.2"
		bar["gpu", name "waits_launch", "gentle"] = bar["gpu", name "never_launch", "gentle"] = "X2"
	}
	bar["gpu", "exchange_1024MiB_told", "fast"] = bar["gpu", "exchange_1024MiB_turn", "fast"] = "X1.3"
	n = split("90 75 50 25", live, " ")
	for (i = 1; i <= n; i++) {
		bar["gpu", "training_" live[i] "%", "seen"] = "<order"
		bar["gpu", "closed_" live[i] "%", "seen"] = "#5000"
	}
	bar["gpu", "training_75%", "later"] = "<seen"
	n = split("4KiB_of_16k 4KiB_of_64k 4KiB_of_1M 2MiB_of_16k", live, " ")
	split("alloc_ free_", kind, " ")
	for (i = 1; i <= 2 * n; i++) {
		name = kind[i > n ? 2 : 1] live[i > n ? i - n : i]
		base = name
		sub(/_of_.*/, "_of_1k", base)
		bar["null", name, "spillway"] = bar["null", name, "limited"] = "/" base
		bar["gpu", name, "spillway"] = bar["gpu", name, "limited"] = "/" base
	}
}

function verdict(is_held) {
	return is_held ? ": held" : ": missed"
}

function bar_text(driver, measure, variant, ns, direct,    text, base, other) {
	text = bar[driver, measure, variant]
	if (text ~ /^\+/)
		return "at most +" substr(text, 2) " ns"
	if (text ~ /^=/)
		return "at most " substr(text, 2) " ns"
	if (text ~ /^X/)
		return "at most x" substr(text, 2) (direct ? verdict(ns / direct <= substr(text, 2) + 0) : "")
	if (text ~ /^#/)
		return "at most " substr(text, 2) " of a million" verdict(ns <= substr(text, 2) + 0)
	if (text ~ /^</) {
		split(substr(text, 2) " 1.01", other, " ")
		base = median(driver SUBSEP measure, other[1])
		return base ? sprintf("x%.3f of %s, at most %s", ns / base, other[1], other[2]) verdict(ns <= base * other[2]) : ""
	}
	if (text ~ /^x/)
		return "at most " text " on a real GPU"
	if (text ~ /^\//) {
		base = median(driver SUBSEP substr(text, 2), variant)
		return base ? sprintf("flat: x%.2f of 1k", ns / base) : "flat"
	}
	return ""
}

END {
	variants = split("direct spillway any-glibc named limited unspilled surveyed stepped paced paced-stepped peer books moved fast gentle order seen later heat host", variant, " ")
	set_bars()
	if (json)
		printf "{\n  \"rounds\": %d,\n  \"results\": [", rounds >json
	for (k = 1; k <= keys; k++) {
		split(order[k], part, SUBSEP)
		if (part[1] != driver) {
			driver = part[1]
			if (k > 1)
				print ""
			print device[driver]
			printf "  %-27s %-13s %14s %8s %14s  %s\n", "measure", "variant", "ns", "ratio", "added ns", "bar"
		}
		# A step is compared with one that has all it needs on the device.
		base = match(part[2], /^(step|training)_/) ? part[1] SUBSEP substr(part[2], 1, RLENGTH) "100%" : order[k]
		direct = count[base, "direct"] ? median(base, "direct") : 0
		for (v = 1; v <= variants; v++) {
			if (!count[order[k], variant[v]])
				continue
			ns = median(order[k], variant[v])
			text = bar_text(part[1], part[2], variant[v], ns, direct)
			if (direct)
				line = sprintf("  %-27s %-13s %14.1f %8.3f %+14.1f  %s", part[2], variant[v], ns, ns / direct, ns - direct, text)
			else
				line = sprintf("  %-27s %-13s %14.1f %23s  %s", part[2], variant[v], ns, "", text)
			sub(/ +$/, "", line)
			print line
			if (json)
				printf "%s\n    {\"driver\": %s, \"device\": %s, \"measure\": %s, " \
					"\"variant\": %s, \"ns\": %.1f, \"ratio\": %s, \"added_ns\": %s, \"bar\": %s}", \
					results++ ? "," : "", quote(part[1]), quote(device[driver]), \
					quote(part[2]), quote(variant[v]), ns, \
					direct ? sprintf("%.4f", ns / direct) : "null", \
					direct ? sprintf("%.1f", ns - direct) : "null", \
					text ? quote(text) : "null" >json
		}
	}
	if (json)
		printf "\n  ]\n}\n" >json
}
