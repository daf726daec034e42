#!/bin/sh
# SPDX-License-Identifier: MIT
# A share is changed while the program runs. It is in force at once, also for a launch that sleeps
# in a slot of the old share. A pause holds back launches alone. Work in flight goes on.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/pace.sh
. tests/e2e/pace.sh

# now: of the clock that samples have
now() { awk 'END { printf "%.0f\n", $1 }' "$scratch/samples"; }
# share_between FROM TO: held, in whole points
share_between() {
	awk -v from="$1" -v to="$2" -f tests/bench/held.awk "$scratch/samples" | sed 's/held=\([0-9]*\).*/\1/'
}

"$softgpu/softgpu-truth" --watch 10 >"$scratch/samples" &
judge=$!
"$spillway" run --softgpu --quiet --name live --share 20 "$load" --asleep --seconds 600 >"$scratch/out" 2>&1 &
runner=$!
until_true $patience counter_above live launches 100 || fail "not started: $(cat "$scratch/out")"

# Held in the two seconds after a change, but for its first tenth; never more than the share and
# what may be saved.
keeps() {
	"$spillway" set --timeout $patience live --share 20 >/dev/null
	sleep 0.1
	"$spillway" set --timeout $patience live --share "$1" >/dev/null
	sleep 0.1
	from=$(now)
	sleep 2
	held=$(share_between "$from" "$(now)")
	[ "$held" -le $(($1 + 4)) ] || off "$held % held after --share $1"
	[ "$held" -ge 1 ] || off "nothing ran after --share $1"
}
undisturbed keeps 60
undisturbed keeps 10
undisturbed keeps 40
# Up: a share that was not in force would not be met by far, and a machine that is not too busy for
# it meets it once.
meets() {
	from=$(now)
	sleep 1
	[ "$(share_between "$from" "$(now)")" -gt 50 ]
}
"$spillway" set --timeout $patience live --share 95 >/dev/null
until_true $patience meets || fail "--share 95 is not in force: $(share_between "$from" "$(now)") % held"

# Paused: what is in flight ends, then nothing runs; the process and its statistics live on.
"$spillway" pause --timeout $patience live >/dev/null
sleep 1
from=$(now) before=$(counter live launches) waited=$(counter live idle_ns)
sleep 1
same "held while paused" 0 "$(share_between "$from" "$(now)")"
same "launches while paused" "$before" "$(counter live launches)"
until_true $patience counter_above live idle_ns "$waited" || fail "idle time does not grow while paused"
kill -0 $runner || fail "the program ended while paused: $(cat "$scratch/out")"
"$spillway" resume --timeout $patience live >/dev/null
until_true $patience counter_above live launches "$before" || fail "resume did not let launches go on"
same "the share after resume" 95000 "$(counter live share_set)"

# A launch that sleeps for a long time under one share goes on under another: nobody waits out what
# is not owed any more.
"$spillway" set --timeout $patience live --share 0.01% >/dev/null
sleep 1
before=$(counter live launches)
"$spillway" set --timeout $patience live --share 100 >/dev/null
until_true $patience counter_above live launches $((before + 100)) || fail "launches do not go on after 0.01 %"
kill $runner
wait $runner 2>/dev/null || true

# Share 0 from the start: nothing runs until it is raised, then all of it does.
"$spillway" run --softgpu --quiet --name nothing --share 0 "$load" --asleep --launches 50 >"$scratch/out" 2>&1 &
runner=$!
is_there() { [ "$(counter nothing paused)" = 1 ]; }
until_true $patience is_there || fail "not there: $(cat "$scratch/out")"
sleep 0.5
kill -0 $runner || fail "it ended: $(cat "$scratch/out")"
same "kernels at share 0" 0 "$("$softgpu/softgpu-truth" | awk 'NR > 1 { sum += $5 } END { print sum + 0 }')"
"$spillway" set --timeout $patience nothing --share 50 >/dev/null
wait $runner || fail "exit status $?: $(cat "$scratch/out")"
same "kernels" 50 "$(field kernels "$(cat "$scratch/out")")"
"$spillway" stat nothing | grep -Eq ' 50 % +- +no ' || fail "an ended job holds no share: $("$spillway" stat nothing)"
