#!/bin/sh
# SPDX-License-Identifier: MIT
# No descriptor is left, or all are closed behind our back. The limits hold, one line names the
# missing service, and no descriptor of the program's is ever touched.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
guest=$build/tests/e2e/guest
mib=1048576

# A driver that keeps no descriptor of its own, so that all is about ours.
null_guest() {
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$guest" "$@" >"$scratch/out" 2>"$scratch/err" ||
		fail "$*: status $?: $(cat "$scratch/err")"
	out=$(cat "$scratch/out")
	err=$(cat "$scratch/err")
	has "$*" "$out" "done"
}
lines() { same "lines on stderr ($err)" "$1" "$(grep -c . "$scratch/err" || true)"; }

# In good times: at most one descriptor more than without us, and no line.
export SPILLWAY_MEMORY=16MiB
plain=$(field fds "$(LD_LIBRARY_PATH=$build/bench/null "$guest" init fds)")
# With a limit of its own nobody reads how much host memory there is.
SPILLWAY_HOST_MEMORY=1GiB null_guest init context alloc:8:4 fds free
has "plain" "$out" "alloc=4 result=0 total=$((16 * mib)) errno=kept"
[ "$(field fds "$out")" -le $((plain + 1)) ] || fail "more than one descriptor is ours: $out"
lines 0

# What stays open is out of the way: the program's first file is the third, as without us.
SPILLWAY_LOG="debug:$scratch/log" null_guest init context alloc:8:1 own:other check
has "with a log" "$out" "own: from descriptor 3"
has "with a log" "$out" "check: bad=0"
[ -s "$scratch/log" ] || fail "nothing was logged"

# None before the driver can even be opened: as where there is none.
null_guest nofile:64 take init context alloc:8:1 release
has "none at first" "$out" "init=100"
has "none at first" "$out" "alloc=0 result=3"
has "none at first" "$err" "libcuda.so.1: cannot open shared object file: Too many open files"
lines 1

# None at cuInit: no state, no files, but the environment counts. One line for each.
null_guest nofile:64 version take init context alloc:8:4 free release
has "none at cuInit" "$out" "alloc=4 result=0 total=$((16 * mib)) errno=kept"
has "none at cuInit" "$err" "$SPILLWAY_STATE_DIR: Too many open files; this process is not in the job's books"
has "none at cuInit" "$err" "cannot read it: Too many open files; that does not count, all else does"
lines 2
# The real driver could not either: its answer is the program's.
out=$(under_shim "$guest" nofile:64 version take init release 2>/dev/null)
has "none at cuInit, software GPU" "$out" "init=304"

# What could not be read is read when there are descriptors again.
unset SPILLWAY_MEMORY
printf '[gpu]\nmemory = 8MiB\n' >"$scratch/late.ini"
export SPILLWAY_CONFIG="$scratch/late.ini"
null_guest nofile:64 version take init context release total:$((8 * mib)) alloc:4:4
has "read late" "$out" "alloc=4 result=0 total=$((8 * mib))"
lines 2
unset SPILLWAY_CONFIG

# None after cuInit: a change waits until there is one again. The helper thread may say that it
# could not read.
mkfifo "$scratch/go"
start() { # start JOB STEP...
	export SPILLWAY_JOB=$1 # of stat and set, too
	shift
	rm -rf "$scratch/ready"
	LD_PRELOAD=$shim LD_LIBRARY_PATH=${driver:-$build/bench/null} "$guest" "$@" <"$scratch/go" \
		>"$scratch/out" 2>"$scratch/err" &
	pid=$!
	exec 9>"$scratch/go"
	until_true $patience test -e "$scratch/ready" || fail "$*: not ready: $(cat "$scratch/err")"
}
go_on() {
	echo >&9
	exec 9>&-
	wait "$pid" || fail "status $?: $(cat "$scratch/out" "$scratch/err")"
	out=$(cat "$scratch/out")
	err=$(cat "$scratch/err")
	has "$SPILLWAY_JOB" "$out" "done"
}
start later nofile:64 init context take wait:"$scratch/ready" alloc:8:4 release total:$((12 * mib)) free
"$spillway" set later --memory 12MiB >/dev/null 2>&1 & # it waits for the process to follow
setting=$!
until_true $patience test -e "$SPILLWAY_STATE_DIR/later.override.ini" || fail "nothing was set"
go_on
wait $setting || fail "set: status $?"
has "none later" "$out" "alloc=4 result=0"
has "none later" "$out" "total=$((12 * mib))"
[ -z "$err" ] || {
	has "none later" "$err" "cannot read it: Too many open files; its last good text stays in force"
	lines 1
}

# All closed, and the numbers taken by the program's own files, pipes and inotify descriptors:
# changes are followed, the log goes where it went, and what is the program's stays untouched.
for kind in inotify other; do
	driver=$build/bench/null
	[ $kind = inotify ] || driver=$softgpu
	export SPILLWAY_LOG="debug:$scratch/log"
	: >"$scratch/log"
	start closes-$kind init context alloc:8:4 wait:"$scratch/ready" close own:$kind wait:"$scratch/own" free check
	"$spillway" set --timeout $patience closes-$kind --share 90 >"$scratch/set" 2>&1 || fail "set: $(cat "$scratch/set")" # it watches now
	echo >&9
	until_true $patience test -e "$scratch/own" || fail "nothing closed"
	printf '[gpu]\nmemory = no\n' >"$SPILLWAY_STATE_DIR/closes-$kind.override.ini"
	until_true $patience grep -q 'memory = no' "$scratch/log" || fail "closed: a change was not followed, or not logged"
	go_on
	rmdir "$scratch/own"
	has "closed" "$out" "own: from descriptor 3" # and so what was ours, too
	has "closed" "$out" "check: bad=0"
	has "closed" "$out" "free=0"
	[ -z "$err" ] || fail "closed: says $err"
done
