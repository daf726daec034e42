#!/bin/sh
# SPDX-License-Identifier: MIT
# A state directory without room: no inode, no page, a quota, read-only; from the beginning, or from
# the middle of a job. The program runs, its limit is kept, and one line names the file, the reason
# and the loss. A command that needs a file says so and changes nothing.
set -eu
[ -n "${IN_PLACE:-}" ] || unshare --mount true 2>/dev/null || {
	echo "SKIP: no mount namespace here"
	exit 77
}
[ -n "${IN_PLACE:-}" ] || IN_PLACE=yes exec unshare --mount "$0"
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SPILLWAY_MEMORY=16MiB
place=$scratch/place
SPILLWAY_STATE_DIR=$place/state
SPILLWAY_NODE_DIR=$scratch/node
export SPILLWAY_NODE_DIR
mkdir "$place"
mkdir -m 700 "$SPILLWAY_NODE_DIR"
guest() { SPILLWAY_JOB=job LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null ${prefix:-} "$build/tests/e2e/guest" "$@"; }
missed="; this process is not in the job's books: where memory is limited it holds none on the GPU"

# program WHAT LINE...: runs with its limit and says just these lines
program() {
	what=$1
	shift
	guest init context alloc:8:4 free >"$scratch/out" 2>"$scratch/err" || fail "$what: status $?: $(cat "$scratch/err")"
	has "$what" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216 errno=kept"
	has "$what" "$(cat "$scratch/out")" "free=0"
	for line; do
		has "$what" "$(cat "$scratch/err")" "$line"
	done
	same "$what: lines: $(cat "$scratch/err")" $# "$(grep -c . "$scratch/err" || true)"
}
# in_place OPTIONS: the state directory is of such a file system
in_place() { mount -t tmpfs -o "$1" none "$place"; }

# Files, one more each time.
for inodes in 1 2 3 4 5; do
	in_place nr_inodes=$inodes
	full="No space left on device"
	case $inodes in
	1) program "no inode" "$place/state: cannot be made: $full$missed" ;;
	2) program "1 inode" "$place/state/.lock: job job cannot be locked: $full$missed" ;;
	3) program "2 inodes" "$place/state/job.segment: cannot be made: $full$missed" ;;
	4)
		lost=".events: cannot be made: $full; no events are kept"
		built_in events || lost=
		program "3 inodes" ${lost:+"$lost"}
		;;
	5) program "4 inodes" ;;
	esac
	case $inodes in
	2 | 3)
		"$spillway" run --softgpu --name other true >"$scratch/out" 2>&1 && fail "run: began without room"
		has "run" "$(cat "$scratch/out")" "$place/state: a job's state takes 2 MiB: $full: no inodes are left (df -i)"
		;;
	4)
		"$spillway" events --since @0 job >"$scratch/out" 2>&1 || true
		! built_in events || has "events" "$(cat "$scratch/out")" "job 'job' has kept no events"
		;;
	esac
	umount "$place"
done
for size in 4k 64k; do
	in_place size=$size
	program "$size" "$place/state/job.segment: cannot be made: No space left on device$missed"
	umount "$place"
done
in_place size=1m
mkdir -m 700 "$place/state"
mount -o remount,ro "$place"
program "read-only" "$place/state/.lock: job job cannot be locked: Read-only file system$missed"
umount "$place"
in_place size=10m
prefix="$build/tests/e2e/deny fallocate=EDQUOT --"
if $prefix true 2>/dev/null; then
	guest() { SPILLWAY_JOB=job LD_LIBRARY_PATH=$build/bench/null $prefix env LD_PRELOAD="$shim" "$build/tests/e2e/guest" "$@"; }
	program "a quota" "$place/state/job.segment: cannot be made: Disk quota exceeded$missed"
	guest() { SPILLWAY_JOB=job LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$build/tests/e2e/guest" "$@"; }
fi
umount "$place"

# Full from the middle of a job on.
in_place nr_inodes=20,size=600k
mkfifo "$scratch/go"
guest init context alloc:8:4 free "wait:$scratch/waits" alloc:1:3000 free <"$scratch/go" >"$scratch/out" 2>"$scratch/err" &
pid=$!
exec 7>"$scratch/go"
until_true $patience test -e "$scratch/waits" || fail "not ready: $(cat "$scratch/err")"
head -c 2000000 /dev/zero >"$place/pages" 2>/dev/null || true
i=0
while touch "$place/$i" 2>/dev/null; do i=$((i + 1)); done
refused() { # refused WHAT COMMAND...: says why and which file
	"$spillway" "$@" >"$scratch/said" 2>&1 && fail "$*: done without room"
	has "$*" "$(cat "$scratch/said")" "$place/state/job."
	has "$*" "$(cat "$scratch/said")" "No space left on device"
}
refused set job --memory 8MiB
refused pause job
"$spillway" resume --timeout $patience job >"$scratch/said" 2>&1 || fail "resume: $(cat "$scratch/said")"
"$spillway" stat job >"$scratch/said" 2>&1 || fail "stat: $(cat "$scratch/said")"
has "stat" "$(cat "$scratch/said")" "16.0 MiB"
echo >&7
exec 7>&-
wait $pid || fail "full in the middle: status $?: $(cat "$scratch/err")"
has "full in the middle" "$(cat "$scratch/out")" "alloc=3000 result=0 total=16777216 errno=kept"
built_in events || exit 0
if uname -r | grep -qE '^([1-4]|5\.([0-9]|1[0-3]))\.'; then exit; fi # whole rings from the beginning
has "full in the middle" "$(cat "$scratch/err")" "the state directory has no room for all of job."
same "lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
has "events" "$("$spillway" events --since @0 job)" "events are lost"
