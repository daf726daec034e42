#!/bin/sh
# SPDX-License-Identifier: MIT
# File systems are read-only, full or missing. The program runs with a limit of 0, and one line
# gives the reason. A full one is noticed before it leads to a SIGBUS.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SPILLWAY_MEMORY=16MiB SPILLWAY_JOB=job

# A directory that some program left where one is sought by default would be the one in use: it is
# covered by one that everybody may write to, which is passed over.
uid=0 # inside, whoever we are
cover="for left in /dev/shm/spillway-$uid /run/user/$uid/spillway /tmp/spillway-$uid; do
		[ ! -e \$left ] || mount -t tmpfs -o mode=0777 none \$left
	done"
# in_places SCRIPT: sh -c SCRIPT with mounts of its own
if [ "$(id -u)" -eq 0 ]; then
	in_places() { unshare --mount sh -euc "$cover
$1"; }
else
	in_places() { unshare --user --map-root-user --mount sh -euc "$cover
$1"; }
fi
in_places 'mount -t tmpfs -o size=64k none "$TMPDIR"' 2>"$scratch/err" || {
	echo "no mount namespaces here: $(tail -n 1 "$scratch/err")"
	exit 77
}

# On a driver that keeps no files itself.
program="LD_PRELOAD='$shim' LD_LIBRARY_PATH='$build/bench/null' '$build/tests/e2e/guest' init context alloc:8:4 free"

# alone WHAT PLACE WHY: the program in that place
alone() {
	in_places "$2
		$program" >"$scratch/out" 2>"$scratch/err" || fail "$1: status $?: $(cat "$scratch/err")"
	has "$1" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216 errno=kept"
	has "$1" "$(cat "$scratch/out")" "free=0"
	same "$1: lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
	has "$1" "$(cat "$scratch/err")" "$3; this process is not in the job's books"
}
state=$SPILLWAY_STATE_DIR
own=/dev/shm/spillway-$uid

# Everything read-only, as in a hardened container.
read_only='awk "{ print \$5 }" /proc/self/mountinfo | sort -u | while read -r place; do
		case $place in /proc | /proc/* | /sys | /sys/*) continue ;; esac
		mount -o remount,bind,ro "$(printf "%b" "$place")" 2>/dev/null || true
	done
	for place in / /tmp /dev/shm "$TMPDIR" "$SPILLWAY_STATE_DIR"; do
		! (: >"$place/written") 2>/dev/null || { echo "$place can be written"; exit 99; }
	done'
alone "read-only" "$read_only" "$state/.lock: job job cannot be locked: Read-only file system"
alone "read-only, nothing there" "$read_only; export SPILLWAY_STATE_DIR=$state/new" \
	"$state/new: cannot be made: Read-only file system"
alone "read-only by default" "mount -t tmpfs none /dev/shm; $read_only; unset SPILLWAY_STATE_DIR" \
	"$own: cannot be made: Read-only file system"
# The software GPU needs a place to write; the log does not stop anything either.
in_places "$read_only
	mount -t tmpfs none '$SOFTGPU_STATE_DIR'
	LD_PRELOAD='$shim' LD_LIBRARY_PATH='$softgpu' SPILLWAY_LOG=warning:/tmp/log '$build/tests/e2e/allocate'" \
	>"$scratch/out" 2>"$scratch/err" || fail "read-only, software GPU: $(cat "$scratch/err")"
has "read-only, software GPU" "$(cat "$scratch/out")" "blocks=8 refused=0 free=16777216 total=16777216"
has "read-only, software GPU" "$(cat "$scratch/out")" "ok bad=0"
has "read-only log" "$(cat "$scratch/err")" "SPILLWAY_LOG: cannot open /tmp/log: Read-only file system; using stderr"

# Full, in bytes and in files.
full='mount -t tmpfs -o size=128k,mode=0700 none "$SPILLWAY_STATE_DIR"'
alone "full" "$full" "$state/job.segment: cannot be made: No space left on device"
alone "no more files" 'mount -t tmpfs -o nr_inodes=2,mode=0700 none "$SPILLWAY_STATE_DIR"' \
	"$state/job.segment: cannot be made: No space left on device"
alone "full by default" "mount -t tmpfs -o size=128k none /dev/shm; unset SPILLWAY_STATE_DIR" \
	"$own/job.segment: cannot be made: No space left on device"

# Room for the segment and not for the ring of events: the process is in the books, and one line
# says what is missing.
no_room_for_events() {
	in_places 'mount -t tmpfs -o size=16m,mode=0700 none "$SPILLWAY_STATE_DIR"
		'"$program"' >/dev/null 2>&1
		size=$(($(stat -c %s "$SPILLWAY_STATE_DIR/job.segment") + 65536))
		umount "$SPILLWAY_STATE_DIR"
		mount -t tmpfs -o size=$size,mode=0700 none "$SPILLWAY_STATE_DIR"
		'"$program"'
		echo left: $(ls -A "$SPILLWAY_STATE_DIR")' >"$scratch/out" 2>"$scratch/err" || fail "no room for events: $(cat "$scratch/err")"
	has "no room for events" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216 errno=kept"
	same "no room for events: lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
	has "no room for events" "$(cat "$scratch/err")" ".events: cannot be made: No space left on device; no events are kept"
	has "no room for events" "$(cat "$scratch/out")" "left: .lock job.segment"
}
! built_in events || no_room_for_events

# A segment with a hole, whose page a full file system cannot give: not SIGBUS.
hole='mount -t tmpfs -o size=3m,mode=0700 none "$SPILLWAY_STATE_DIR"
	'$program' >/dev/null
	fallocate --punch-hole --offset 4096 --length 4096 "$SPILLWAY_STATE_DIR/job.segment"
	head -c 4M /dev/zero >"$SPILLWAY_STATE_DIR/fill" 2>/dev/null || true'
alone "full, with a hole" "$hole" "$state/job.segment: No space left on device"

# Somewhere else by default: without /dev/shm, and where another user has the name there. The tool
# finds it.
elsewhere() { # elsewhere WHAT PLACE THEN LINES
	in_places "mount -t tmpfs none /run
		mkdir -p -m 0700 /run/user/$uid
		$2
		unset SPILLWAY_STATE_DIR
		$program
		'$spillway' stat job --format csv,noheader
		ls -A /run/user/$uid/spillway
		$3" >"$scratch/out" 2>"$scratch/err" || fail "$1: status $?: $(cat "$scratch/err")"
	has "$1" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216 errno=kept"
	same "$1: in the tool" 1 "$(grep -c '^job,' "$scratch/out")"
	has "$1" "$(cat "$scratch/out")" "job.segment"
	same "$1: lines: $(cat "$scratch/err")" "$4" "$(grep -c . "$scratch/err")"
}
elsewhere "no /dev/shm" "mount -t tmpfs none /dev" "" 0
squatted="$own: expected a directory, not a link or file"
squat="mount -t tmpfs none /dev/shm; ln -s /tmp $own"
if [ "$(id -u)" -eq 0 ]; then
	squatted="$own: belongs to user 65534, expected a directory of user 0"
	squat="mount -t tmpfs none /dev/shm; mkdir $own; chown 65534 $own"
fi
elsewhere "squatted" "$squat" "" 1
has "squatted" "$(cat "$scratch/err")" "$squatted; /run/user/$uid/spillway is used instead"
# It stays there when the stranger goes: the next process is in the same job.
elsewhere "squatted for a while" "$squat" "rm -rf $own; $program; ls -d $own* || true" 2
! grep -qx "$own" "$scratch/out" || fail "squatted for a while: $own was made beside the one in use"
in_places "$squat
	mount -t tmpfs none /run
	mkdir -p -m 0700 /run/user/$uid
	unset SPILLWAY_STATE_DIR
	'$spillway' doctor | grep 'state directory:'" >"$scratch/out" 2>&1 || true
has "doctor" "$(cat "$scratch/out")" "ok  state directory: $squatted; /run/user/$uid/spillway is used instead"
