#!/bin/sh
# SPDX-License-Identifier: MIT
# turn = exclusive beside a peer record that says that it has the device since the beginning of
# time, and never makes way: the others go on by exclusive turns without it, and say so.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=96M SOFTGPU_KERNEL_TIME_US=2000

# starts JOB
starts() {
	"$spillway" run --softgpu --quiet --name "$1" --turn exclusive --turn-length 300ms "$build/tests/e2e/moves" \
		--mode one --until "$scratch/stop" >"$scratch/$1" 2>"$scratch/$1.errors" &
}
# have_turns COUNT: each has left the device for the other so often
have_turns() { counter_at_least left demotions "$1" && counter_at_least right demotions "$1"; }

starts left
starts right
until_true $patience have_turns 2 || fail "no turns: $(cat "$scratch/left.errors" "$scratch/right.errors")"
uuid=$("$spillway" stat left --json | sed 's/.*"uuid":"\([^"]*\)".*/\1/')
"$build/tests/e2e/forge_record" "$uuid" has 2>"$scratch/forge" &
forger=$!
left_out() { grep -q 'ignores a job' "$scratch/left.errors" && grep -q 'ignores a job' "$scratch/right.errors"; }
until_true $patience left_out || fail "the forged record holds them: $("$spillway" stat left; "$spillway" stat right)"
had=$(counter left demotions)
[ "$had" -ge "$(counter right demotions)" ] || had=$(counter right demotions)
until_true $patience have_turns $((had + 40)) || fail "no turns beside a forged record: $("$spillway" stat left; "$spillway" stat right)"
kill -0 $forger || fail "the forged record is gone: $(cat "$scratch/forge")"
! grep 'turns are fine' "$scratch/left.errors" "$scratch/right.errors" || fail "exclusive turns were given up"
kill -KILL $forger
wait $forger 2>/dev/null || true
touch "$scratch/stop"
wait
