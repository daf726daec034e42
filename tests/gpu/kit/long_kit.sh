#!/bin/sh
# SPDX-License-Identifier: MIT
# The whole GPU kit runs on a bare machine, with the software GPU as its driver. Within 45 minutes
# every step of every part ends well or gives the reason why it has no work here. Every question has
# an answer. Then each part is killed, and its archive has the results until then.
set -eu
. tests/gpu/kit/bare.sh
bare_make
began=$(date +%s)
(bare /kit/selftest /out/run) >"$TMPDIR/said" 2>&1 || {
	cat "$TMPDIR/said"
	sed -n 's/^\([^	]*\)	\(failed\|out of time\|not reached\).*/\1/p' "$TMPDIR/out/run/steps.tsv" | while read -r step; do
		echo "--- $step"
		tail -n 20 "$TMPDIR/out/run/$step/log"
	done
	fail "not every step ended well"
}
took=$(($(date +%s) - began))
cat "$TMPDIR/said"
[ $took -le 2700 ] || fail "it took $took s"
for part in 1 2 3 4 5; do
	grep -q "^$part-" "$TMPDIR/out/run/steps.tsv" || fail "part $part is not in the results"
done
if grep -q 'not reached' "$TMPDIR/out/run/steps.tsv"; then fail "a step was not reached"; fi
tar -tf "$TMPDIR/out/run.tar" >"$TMPDIR/names" || fail "the archive cannot be read"
for name in results.md what-to-change.md 1-questions/answers.tsv 1-probe/probe.tsv 1-conformance/recorded/vmm.txt; do
	grep -qx "run/$name" "$TMPDIR/names" || fail "no $name in the archive"
done
awk -F '\t' 'FILENAME == ARGV[1] { asked[$1] = 1; next } { delete asked[$1] } END { for (name in asked) { print name; bad = 1 } exit bad }' \
	"$TMPDIR/out/run/1-questions/questions.tsv" "$TMPDIR/out/run/1-questions/answers.tsv" || fail "questions without an answer: see above"
echo "the whole took $took s"

for part in 1 2 3 4 5; do
	out=$TMPDIR/out/killed$part
	(ALL_DIE=yes bare /kit/selftest "/out/killed$part" $part) >"$TMPDIR/said" 2>&1 &
	run=$!
	tries=4800
	until [ -e "$out.tar" ] && [ "$(find "$out" -name log | wc -l)" -gt 1 ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "part $part does not get on: $(cat "$TMPDIR/said")"
		sleep 0.05
	done
	kill -KILL $run
	wait $run && fail "part $part ended as if nothing had been"
	tar -tf "$out.tar" | grep -q "^killed$part/$part-.*/log$" || fail "part $part: nothing of it in the archive"
	tar -xOf "$out.tar" "killed$part/steps.tsv" | grep -q "^$part-" || fail "part $part: no steps in the archive"
done
