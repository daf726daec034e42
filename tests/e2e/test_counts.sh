#!/bin/sh
# SPDX-License-Identifier: MIT
# Large numbers: a million allocations, ten thousand streams while memory moves, lists of all
# resources, crowds of processes. On a driver that does nothing, so that the time is ours alone.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# More than are looked at in one go, which is 64 process slots; with these sanitizers each is slow
# to start.
case ${SANITIZER:-} in
address | thread) : "${COUNT_PROCESSES:=100}" ;;
*) : "${COUNT_PROCESSES:=150}" ;;
esac
guest=$build/tests/e2e/guest
on_null() { LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$@"; }

# A million allocations alive at once, in a job nobody named and in a limited one.
million=1048576
for limit in "" 64MiB; do
	out=$(env ${limit:+SPILLWAY_JOB=million SPILLWAY_MEMORY=$limit} \
		LD_PRELOAD="$shim" LD_LIBRARY_PATH="$build/bench/null" "$guest" init context alloc:0:$million free 2>&1)
	has "a million" "$out" "alloc=$million result=0"
	has "a million" "$out" "free=0"
done
same "allocations that are left" 0 "$(counter million allocations)"
same "all are given back" "0 0" "$(counter million device_used) $(counter million host_used)"

# Memory moves although each of ten thousand streams has to be asked whether it is done.
mkfifo "$scratch/in"
SPILLWAY_JOB=streams SPILLWAY_MEMORY=64MiB LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null \
	"$build/tests/e2e/streams" 10000 "$scratch/ready" <"$scratch/in" >"$scratch/out" 2>&1 &
running=$!
exec 8>"$scratch/in"
until_true $patience test -e "$scratch/ready" || fail "not ready: $(cat "$scratch/out")"
"$spillway" set streams --memory 8MiB --timeout $patience >"$scratch/set" 2>&1 || fail "set: $(cat "$scratch/set")"
has "set" "$(cat "$scratch/set")" "limit 8.00 MiB, share"
[ "$(counter streams demoted_bytes)" -ge $((24 * 1048576)) ] || fail "nothing moved: $("$spillway" stat streams)"
echo >&8
wait $running || fail "streams: $(cat "$scratch/out")"
same "streams" "streams=10000 wrong=0" "$(cat "$scratch/out")"

# All of a hundred thousand resources are listed.
lists_all() {
	many=100000
	mkfifo "$scratch/list"
	exec 6<>"$scratch/list"
	SPILLWAY_JOB=listed on_null "$guest" init context alloc:0:$many "wait:$scratch/listed" free <"$scratch/list" >"$scratch/out" 2>&1 &
	running=$!
	until_true $patience test -e "$scratch/listed" || fail "not ready: $(cat "$scratch/out")"
	"$spillway" stat listed --resources >"$scratch/lines" || fail "stat --resources: $(tail -3 "$scratch/lines")"
	same "allocations that are listed" $many "$(grep -c '/allocation/' "$scratch/lines")"
	echo >&6
	wait $running || fail "listed: $(cat "$scratch/out")"
}
! built_in resources || lists_all

# A crowd of processes: each starts and works, and is counted.
mkdir "$scratch/here"
mkfifo "$scratch/go"
exec 7<>"$scratch/go"
export SPILLWAY_JOB=crowd SPILLWAY_MEMORY=64MiB
i=0 crowd=
while [ $i -lt "$COUNT_PROCESSES" ]; do
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$guest" init context alloc:1:1 "wait:$scratch/here/$i" free \
		<"$scratch/go" >"$scratch/crowd.$i" 2>&1 & # no function, whose process would be a shell
	crowd="$crowd $!"
	i=$((i + 1))
done
all_here() { [ "$(find "$scratch/here" -mindepth 1 | wc -l)" -eq "$COUNT_PROCESSES" ]; }
until_true $((2 * patience)) all_here || fail "$(find "$scratch/here" -mindepth 1 | wc -l) of $COUNT_PROCESSES processes are there"
same "live processes" "$COUNT_PROCESSES" "$("$spillway" stat crowd --json | grep -o '"state":"live"' | wc -l)"
# Every third is killed in the middle of the others.
i=0 killed="" others=""
for pid in $crowd; do
	case $((i % 3)) in 0) killed="$killed $pid" ;; *) others="$others $pid" ;; esac
	i=$((i + 1))
done
# shellcheck disable=SC2086 # numbers
kill -KILL $killed
# shellcheck disable=SC2086 # numbers
left_live() { [ "$("$spillway" stat crowd --json | grep -o '"state":"live"' | wc -l)" -eq "$(echo $others | wc -w)" ]; }
until_true $patience left_live || fail "killed, and not noticed: $("$spillway" stat crowd | tail -n 5)"
for pid in $others; do echo >&7; done
for pid in $others; do
	wait "$pid" || fail "a process failed: $(cat "$scratch"/crowd.*)"
done
same "that had memory" "$COUNT_PROCESSES" "$(cat "$scratch"/crowd.* | grep -c 'alloc=1 result=0')"
same "that have no slot" 0 "$(cat "$scratch"/crowd.* | grep -c "processes already")"
has "afterwards" "$(on_null "$guest" init context alloc:1:1 free 2>&1)" "alloc=1 result=0"
all_is_back() { [ "$(counter crowd device_used) $(counter crowd host_used)" = "0 0" ]; }
until_true $patience all_is_back || fail "not given back: $(counter crowd device_used) $(counter crowd host_used)"
