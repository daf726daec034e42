#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs on one device take turns: each keeps to its share while both want more. A job with a weight
# has the time that other jobs leave. A job that stops or dies in its turn does not hold up the
# other.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/pace.sh
. tests/e2e/pace.sh
runners=

# start JOB SHARE SECONDS [NAME=VALUE...]
start() {
	job=$1 share=$2 seconds=$3
	shift 3
	env "$@" "$spillway" run --softgpu --quiet --name "$job" --share "$share" "$load" --asleep --seconds "$seconds" >"$scratch/$job" 2>&1 &
	runners="$runners $!"
}
# finish PID JOB
finish() {
	wait "$1" || fail "$2: exit status $?: $(cat "$scratch/$2")"
}

# both SHARE SHARE [NAME=VALUE...]: what jobs held while both ran, in $left and $right
both() {
	left_share=$1 right_share=$2
	shift 2
	runners=
	"$softgpu/softgpu-truth" --watch 10 >"$scratch/samples" &
	judge=$!
	start left "$left_share" 4 "$@"
	start right "$right_share" 4 "$@"
	# shellcheck disable=SC2086
	set -- $runners
	finish "$1" left
	finish "$2" right
	wait $judge
	cat "$scratch/left" "$scratch/right" >"$scratch/both"
	# From when both ran to when one was over.
	from=$(grep -o 'start_ns=[0-9]*' "$scratch/both" | cut -d= -f2 | sort -n | tail -n 1)
	to=$(grep -o 'stop_ns=[0-9]*' "$scratch/both" | cut -d= -f2 | sort -n | head -n 1)
	left=$(judged_share "$(field pid " $(cat "$scratch/left")")")
	right=$(judged_share "$(field pid " $(cat "$scratch/right")")")
	runners=
}
judged_share() {
	awk -v from="$from" -v to="$to" -v pids="$1" -f tests/bench/held.awk "$scratch/samples" | sed 's/held=\([0-9]*\).*/\1/'
}

each_its_share() {
	both 60 30
	[ "$left" -le 64 ] || off "a share of 60 % held $left %"
	[ "$right" -le 34 ] || off "a share of 30 % held $right %"
	[ "$left" -gt "$right" ] || off "60 % held $left, 30 % held $right"
}
undisturbed each_its_share

# Both want all of it, and the weights are their parts.
each_by_weight() {
	both 75 25 SPILLWAY_SHARE_POLICY=weight
	[ "$left" -gt "$right" ] || off "a weight of 75 held $left %, one of 25 held $right %"
	[ "$right" -le 40 ] || off "a weight of 25 held $right % beside one of 75"
}
undisturbed each_by_weight

# Alone it may have more than its share, by any policy that says so.
alone() {
	start alone 10 3 SPILLWAY_SHARE_POLICY=weight
	judged finish "${runners# }" alone
	held=$(held_by "$(cat "$scratch/alone")")
	[ "$held" -gt 30 ] || off "alone with a weight of 10 it held $held %"
}
undisturbed alone

# Stopped in its turn, and killed: the other goes on. (How soon is for the bench to say.)
for policy in cap weight; do
	start "$policy-victim" 50 600 SPILLWAY_SHARE_POLICY=$policy
	start "$policy-other" 50 600 SPILLWAY_SHARE_POLICY=$policy
	for job in "$policy-victim" "$policy-other"; do
		until_true $patience counter_above "$job" launches 50 || fail "$job: not started: $(cat "$scratch/$job")"
	done
	victim=$(pid_of "$policy-victim")
	for _ in 1 2 3 4 5; do
		kill -STOP "$victim"
		before=$(counter "$policy-other" launches)
		until_true $patience counter_above "$policy-other" launches $((before + 50)) || fail "$policy: beside a stopped job nothing goes on"
		kill -CONT "$victim"
		before=$(counter "$policy-victim" launches)
		until_true $patience counter_above "$policy-victim" launches "$before" || fail "$policy: it does not go on after it was stopped"
	done
	kill -KILL "$victim"
	before=$(counter "$policy-other" launches)
	until_true $patience counter_above "$policy-other" launches $((before + 50)) || fail "$policy: beside a killed job nothing goes on"
	# shellcheck disable=SC2086
	kill $runners 2>/dev/null || true
	wait
	runners=
done
