#!/bin/sh
# SPDX-License-Identifier: MIT
# Every question is put to the software GPU and answered, once; names are unique and risks are
# known. A driver that kills the process, or does not come back, is an answer, too; and the list of
# changes is made from the answers.
set -eu
: "${BUILD:=build}" "${TMPDIR:?set by tests/run}"
ask=$BUILD/gpu/questions/ask
here=tests/gpu/questions

fail() {
	echo "FAILED: $*"
	exit 1
}
count() { wc -l <"$1" | tr -d ' '; }

"$ask" --list >"$TMPDIR/list"
[ "$(count "$TMPDIR/list")" -ge 80 ] || fail "only $(count "$TMPDIR/list") questions"
awk -F '\t' -v risks="$here/risks.tsv" '
	BEGIN { while ((getline line <risks) > 0) { split(line, part, "\t"); known[part[1]] = 1 } known["-"] = 1 }
	NF != 7 { print $1 ": " NF " fields"; bad = 1 }
	seen[$1]++ { print $1 ": a name of two questions"; bad = 1 }
	$4 == "" || $6 == "" || ($5 != "" && $7 == "") { print $1 ": does not say what it asks, or what is done"; bad = 1 }
	{ n = split($3, number, ","); for (i = 1; i <= n; i++) if (!(number[i] in known)) { print $1 ": no risk " number[i]; bad = 1 } }
	END { exit bad }' "$TMPDIR/list" || fail "see above"

LD_LIBRARY_PATH=$BUILD/softgpu SOFTGPU_QUIET=1 "$ask" --short --seconds 60 --tsv >"$TMPDIR/answers" || {
	cat "$TMPDIR/answers"
	fail "a question has no answer"
}
awk -F '\t' '
	FILENAME == ARGV[1] { asked[$1] = 1; next }
	NF != 3 || $2 == "" { print "not three fields: " $0; bad = 1 }
	$1 ~ /^host_memory_of_/ { next } # by which it is known what may be asked
	!($1 in asked) || answered[$1]++ { print $1 ": not asked, or answered twice"; bad = 1 }
	$2 == "wrong bytes" || $2 == "lost counts" { print "wrong: " $0; bad = 1 }
	END { for (name in asked) if (!(name in answered)) { print name ": not answered"; bad = 1 } exit bad }
' "$TMPDIR/list" "$TMPDIR/answers" || fail "see above"
echo "$(count "$TMPDIR/list") questions, $(awk -F '\t' '$2 == "not asked"' "$TMPDIR/answers" | wc -l) of them not to be asked here"

# A part of them, by a name's beginning, and by a topic.
LD_LIBRARY_PATH=$BUILD/softgpu "$ask" --short numa_node_ >"$TMPDIR/part"
[ "$(grep -c '^numa_node_' "$TMPDIR/part")" = 5 ] || fail "numa_node_: $(cat "$TMPDIR/part")"
if "$ask" --list no_such_question >/dev/null 2>&1; then fail "a name that no question has is taken"; fi

# Without a driver nothing is asked.
if LD_LIBRARY_PATH='' "$ask" --json >"$TMPDIR/none"; then
	grep -q '"yes"' "$TMPDIR/none" || fail "without a driver it ends well: $(cat "$TMPDIR/none")"
else
	[ "$(grep -c 'no dr\|no device' "$TMPDIR/none")" = "$(grep -c answer "$TMPDIR/none")" ] || fail "$(cat "$TMPDIR/none")"
fi

# broken HOW ANSWER SECONDS: the driver breaks in cuMemCreate, and the others are asked all the same
broken() {
	BROKEN_DRIVER=$1 LD_LIBRARY_PATH=$BUILD/gpu/broken "$ask" --seconds "$3" --tsv host_numa_works vmm_from call_costs >"$TMPDIR/broken" &&
		fail "$1: nothing is said by the exit status"
	for name in host_memory_of_node host_memory_of_no_node host_numa_works vmm_from_thread_without_context; do
		grep -q "^$name	$2" "$TMPDIR/broken" || fail "$1: $name: $(cat "$TMPDIR/broken")"
	done
	grep -q '^call_costs	not asked' "$TMPDIR/broken" || fail "$1: $(cat "$TMPDIR/broken")"
}
broken dies "died	of signal 11" 30
broken hangs "no answer	within 2 s$" 2

# What is to be changed: a crash, another answer than counted on, and one as counted on.
changes() { awk -f "$here/changes.awk" "$here/risks.tsv" "$TMPDIR/list" "$1"; }
changes "$TMPDIR/broken" >"$TMPDIR/changes"
grep -q '^- \*\*host_numa_works\*\* (risk 1: .*' "$TMPDIR/changes" || fail "$(cat "$TMPDIR/changes")"
printf 'unmap_beside_work\twaits\t99 ms\nasync_d2h_of_spilled\treturns\t0 ms\nkernel_asked_as_function\trefused\t\ncall_costs\tfigures\tus\n' >"$TMPDIR/given"
changes "$TMPDIR/given" >"$TMPDIR/changes"
grep -q '^- \*\*unmap_beside_work\*\* (risk 13: ' "$TMPDIR/changes" || fail "$(cat "$TMPDIR/changes")"
grep -q "^2 of $(count "$TMPDIR/list") questions were answered as the product counts on, 1 otherwise.$" "$TMPDIR/changes" ||
	fail "$(cat "$TMPDIR/changes")"
grep -q '^- call_costs: figures (us)$' "$TMPDIR/changes" || fail "$(cat "$TMPDIR/changes")"
grep -q '^- host_numa_works: not reached$' "$TMPDIR/changes" || fail "$(cat "$TMPDIR/changes")"
