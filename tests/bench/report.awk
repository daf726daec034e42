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

END {
	variants = split("direct spillway limited peer books", variant, " ")
	if (json)
		printf "{\n  \"rounds\": %d,\n  \"results\": [", rounds >json
	for (k = 1; k <= keys; k++) {
		split(order[k], part, SUBSEP)
		if (part[1] != driver) {
			driver = part[1]
			if (k > 1)
				print ""
			print device[driver]
			printf "  %-18s %-10s %14s %8s %14s\n", "measure", "variant", "ns", "ratio", "added ns"
		}
		direct = count[order[k], "direct"] ? median(order[k], "direct") : 0
		for (v = 1; v <= variants; v++) {
			if (!count[order[k], variant[v]])
				continue
			ns = median(order[k], variant[v])
			if (direct)
				printf "  %-18s %-10s %14.1f %8.3f %+14.1f\n", part[2], variant[v], ns, ns / direct, ns - direct
			else
				printf "  %-18s %-10s %14.1f\n", part[2], variant[v], ns
			if (json)
				printf "%s\n    {\"driver\": %s, \"device\": %s, \"measure\": %s, " \
					"\"variant\": %s, \"ns\": %.1f, \"ratio\": %s, \"added_ns\": %s}", \
					results++ ? "," : "", quote(part[1]), quote(device[driver]), \
					quote(part[2]), quote(variant[v]), ns, \
					direct ? sprintf("%.4f", ns / direct) : "null", \
					direct ? sprintf("%.1f", ns - direct) : "null" >json
		}
	}
	if (json)
		printf "\n  ]\n}\n" >json
}
