#!/bin/sh
# SPDX-License-Identifier: MIT
# No thread can be started and no memory is left. The driver's answers are passed on or memory is
# refused, no process crashes, and one line names the missing resource.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
guest=$build/tests/e2e/guest
mib=1048576

case ${SANITIZER:-} in
address | thread)
	echo "SANITIZER=$SANITIZER reserves more address space than this test allows"
	exit 77
	;;
esac

"$build/tests/e2e/deny" clone3=EAGAIN -- true 2>"$scratch/err" || {
	cat "$scratch/err"
	exit 77
}

# The driver that needs nothing itself.
null_guest() {
	LD_LIBRARY_PATH=$build/bench/null ${prefix:-} env LD_PRELOAD="$shim" "$guest" "$@" >"$scratch/out" 2>"$scratch/err" ||
		fail "$*: status $?: $(cat "$scratch/err")"
	out=$(cat "$scratch/out")
	err=$(cat "$scratch/err")
	lines=$(grep -c . "$scratch/err" || true)
	has "$*" "$out" "done"
}
export SPILLWAY_MEMORY=16MiB

# No thread: nobody can take part in a job, and of a limit this process has none; without one it
# forwards, with no trace of us.
prefix="$build/tests/e2e/deny clone3=EAGAIN clone=EAGAIN --"
null_guest init context alloc:8:4 free threads files
has "no thread" "$out" "alloc=4 result=0 total=$((16 * mib)) errno=kept"
has "no thread" "$out" "threads=1"
has "no thread" "$out" "files=0"
has "no thread" "$err" "no helper thread (Resource temporarily unavailable); this process is not in the job's books"
has "no thread" "$err" "memory in use does not move: no thread"
same "lines" 2 "$lines"
SPILLWAY_SPILL=off null_guest init context alloc:8:4
has "no thread, spill = off" "$out" "alloc=0 result=2"
SPILLWAY_MEMORY='' null_guest init context alloc:8:4 free threads files
has "no thread, no limit" "$out" "alloc=4 result=0 total=137438953472 errno=kept"
has "no thread, no limit" "$out" "files=0"
has "no thread, no limit" "$err" "no helper thread (Resource temporarily unavailable): Spillway is off in this process"
same "lines" 1 "$lines"
prefix=

# Devices that cannot be read: forwards, and is in nobody's books.
mkfifo "$scratch/line"
SPILLWAY_JOB=unread SOFTGPU_FAIL=cuDeviceGetCount:1=2,cuDeviceGetCount:2=2 under_shim "$guest" init "wait:$scratch/waits" \
	context alloc:8:4 free <"$scratch/line" >"$scratch/out" 2>"$scratch/err" &
exec 9>"$scratch/line"
until_true $patience [ -d "$scratch/waits" ] || fail "unread: $(cat "$scratch/err")"
has "unread" "$(cat "$scratch/err")" "devices cannot be read (No such device): Spillway is off in this process"
[ ! -e "$SPILLWAY_STATE_DIR/unread.segment" ] || fail "unread: is in the books: $("$spillway" stat unread)"
echo >&9
exec 9>&-
wait $! || fail "unread: status $?"
has "unread" "$(cat "$scratch/out")" "alloc=4 result=0 total=2147483648"

# Little memory at cuInit: the limit holds, or it is said why not.
limited=0
for room in 0 1 2 4 8; do
	null_guest version as:$room init context alloc:8:4 free
	has "room $room" "$out" "alloc=4 result=0"
	has "room $room" "$out" "free=0"
	case $out in
	*"total=$((16 * mib)) "*) limited=$((limited + 1)) ;;
	*) same "room $room: lines" 1 "$lines" ;;
	esac
done
[ $limited -gt 0 ] || fail "8 MiB are not enough for Spillway"
[ $limited -lt 5 ] || fail "no memory at all is enough for Spillway: nothing was tested"

# None later: an allocation that cannot be entered in the books is refused, and nothing is lost.
for limit in 8GiB 16MiB; do
	for room in 0 1; do
		SPILLWAY_MEMORY=$limit SPILLWAY_JOB=full-$room-$limit \
			null_guest init context as:$room alloc:2:1000000 free alloc:2:10 free
		has "books full" "$out" "result=2"
		# Where there is no memory for an arena, what is beyond the limit is host memory of
		# this process, which has none.
		case $limit-$room in
		16MiB-0) has "books full" "$out" "alloc=8 result=2" ;;
		*) has "books full" "$out" "alloc=10 result=0" ;;
		esac
		same "all given back" 2 "$(grep -c '^free=0$' "$scratch/out")"
		# On a busy machine the helper looks at the settings while there is no memory, and
		# says so.
		grep -v ': out of memory; its last good text stays in force$' "$scratch/err" \
			>"$scratch/said" || true
		others=$(grep -vc 'refused .*: the process has no memory or no addresses left' \
			"$scratch/said" || true)
		[ "$others" -le 1 ] || fail "books full: says $err"
		[ "$(wc -l <"$scratch/said")" -le 2 ] || fail "books full: says $err"
		has "books full" "$("$spillway" stat full-$room-$limit --json)" '"device_used":0,'
	done
done
