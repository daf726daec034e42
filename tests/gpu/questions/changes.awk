# SPDX-License-Identifier: MIT
# changes.awk RISKS LIST ANSWERS: the changes to Spillway that follow from a driver's answers to the
# questions, as Markdown. RISKS is risks.tsv, LIST the output of `ask --list`, ANSWERS that of
# `ask --tsv`.
BEGIN { FS = "\t" }
FILENAME == ARGV[1] { risk[$1] = $2; next }
FILENAME == ARGV[2] {
	order[++questions] = $1
	risks[$1] = $3; asks[$1] = $4; wanted[$1] = $5; done[$1] = $6; change[$1] = $7
	next
}
{ reply[$1] = $2; evidence[$1] = $3 }

# Whether the answer is one of those that the product counts on.
function counted_on(name,    alternatives, count, i) {
	count = split(wanted[name], alternatives, " [|] ")
	for (i = 1; i <= count; i++)
		if (reply[name] == alternatives[i])
			return 1
	return 0
}
function what(name) { return reply[name] (evidence[name] == "" ? "" : " (" evidence[name] ")") }
function names_of_risks(name,    numbers, count, i, text) {
	count = split(risks[name], numbers, ",")
	for (i = 1; i <= count; i++)
		if (numbers[i] in risk)
			text = text (text ? "; " : "") "risk " numbers[i] ": " risk[numbers[i]]
	return text ? text : "no numbered risk"
}

END {
	print "# What to change\n"
	for (q = 1; q <= questions; q++) {
		name = order[q]
		if (!(name in reply) || reply[name] == "not asked" || reply[name] == "no driver" || reply[name] == "no device") {
			left[++lefts] = name
			continue
		}
		if (wanted[name] == "") {
			noted[++notes] = name
			continue
		}
		if (counted_on(name)) {
			good++
			continue
		}
		changes++
		printf "- **%s** (%s). %s\n  Answer: %s; counted on: %s.\n  Today: %s.\n  Change: %s.\n", \
			name, names_of_risks(name), asks[name], what(name), wanted[name], done[name], change[name]
	}
	if (!changes)
		print "Nothing: no answer is another than the product counts on."
	printf "\n%d of %d questions were answered as the product counts on, %d otherwise.\n", good, questions, changes
	if (notes) {
		print "\n## Written down\n"
		for (i = 1; i <= notes; i++)
			printf "- %s: %s\n", noted[i], what(noted[i])
	}
	if (lefts) {
		print "\n## Not answered\n"
		for (i = 1; i <= lefts; i++)
			printf "- %s: %s\n", left[i], left[i] in reply ? what(left[i]) : "not reached"
	}
}
