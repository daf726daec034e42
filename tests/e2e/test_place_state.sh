#!/bin/sh
# SPDX-License-Identifier: MIT
# A state directory cannot be used. The program runs with a limit of 0, and one line names the
# directory and the reason. Files of other users are not touched.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SPILLWAY_MEMORY=16MiB

# On a driver that keeps no files itself.
program() {
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$build/tests/e2e/guest" init context alloc:8:4 free \
		>"$scratch/out" 2>"$scratch/err"
}

# alone DIRECTORY WHY...: what anyone put there is not followed either
alone() {
	directory=$1
	shift
	SPILLWAY_STATE_DIR=$directory program || fail "$directory: status $?: $(cat "$scratch/err")"
	has "$directory" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216 errno=kept"
	has "$directory" "$(cat "$scratch/out")" "free=0"
	same "$directory: lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
	has "$directory" "$(cat "$scratch/err")" "$directory"
	has "$directory" "$(cat "$scratch/err")" "; this process is not in the job's books"
	for why in "$@"; do
		has "$directory" "$(cat "$scratch/err")" "$why"
	done
}
is_empty() { [ -z "$(ls -A "$1")" ] || fail "$1: something was written into it: $(ls -A "$1")"; }

# Of another user: root's, or, where that is us, given away.
others=/usr
if [ "$(id -u)" -eq 0 ]; then
	others=$scratch/others
	mkdir "$others"
	chown 65534 "$others" || others=
fi
[ -z "$others" ] || alone "$others" "belongs to user" "expected a directory of user $(id -u)"
[ "$others" != "$scratch/others" ] || is_empty "$others"

mkdir "$scratch/open"
chmod 0777 "$scratch/open"
printf '[gpu]\nmemory = 4MiB\n' >"$scratch/open/job.override.ini"
SPILLWAY_JOB=job alone "$scratch/open" "mode 0777 lets others write, expected 0700"
rm "$scratch/open/job.override.ini"
mkdir "$scratch/group"
chmod 2770 "$scratch/group"
alone "$scratch/group" "mode 2770 lets others write, expected 0700"
is_empty "$scratch/open"
is_empty "$scratch/group"

mkdir -m 0700 "$scratch/real"
ln -s real "$scratch/link"
ln -s nowhere "$scratch/dangling"
: >"$scratch/file"
alone "$scratch/link" "expected a directory, not a link or file"
alone "$scratch/dangling" "expected a directory, not a link or file"
alone "$scratch/file" "expected a directory, not a link or file"
is_empty "$scratch/real"
alone "$scratch/no/parent" "cannot be made: No such file or directory"
alone /proc/spillway "cannot be made: No such file or directory"
alone relative "expected an absolute path"
alone "/$(printf '%0300d' 0)" "cannot be made: File name too long"

# One that is too long is not cut to another one.
long=$scratch$(printf '%0999d' 0 | sed 's|0|/0|g')
SPILLWAY_STATE_DIR=$long program || fail "too long: status $?"
has "too long" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216"
has "too long" "$(cat "$scratch/err")" "expected at most 400 characters; this process is not in the job's books"
same "too long: lines" 1 "$(grep -c . "$scratch/err")"

# Things in it that are not what they should be.
state=$scratch/state
for name in .lock job.segment .job.unfinished; do
	for kind in 'ln -s /nonexistent/x' 'ln -s ../file' mkdir mkfifo; do
		case $name,$kind in .job*,mkfifo | .job*,ln* | .lock,mkfifo) continue ;; esac
		rm -rf "$state"
		mkdir -m 0700 "$state"
		$kind "$state/$name"
		SPILLWAY_JOB=job alone "$state" "job"
	done
done
# Of the unfinished name a link is removed as what a killed maker left, and the job is made.
rm -rf "$state"
mkdir -m 0700 "$state"
ln -s ../file "$state/.job.unfinished"
SPILLWAY_STATE_DIR=$state SPILLWAY_JOB=job program || fail "unfinished: status $?"
same "unfinished: lines" 0 "$(grep -c . "$scratch/err" || true)"
[ ! -e "$state/.job.unfinished" ] || fail "the link stays"
[ ! -s "$scratch/file" ] || fail "a link was followed"

# A file-size limit: no signal, no half of a file.
rm -rf "$state"
(
	ulimit -f 8
	SPILLWAY_STATE_DIR=$state SPILLWAY_JOB=small program
) || fail "file-size limit: status $?"
has "file-size limit" "$(cat "$scratch/out")" "alloc=4 result=0 total=16777216"
has "file-size limit" "$(cat "$scratch/err")" "small.segment: cannot be made: File too large; this process is not in the job's books"
same "what is left" ".lock" "$(ls -A "$state" | tr '\n' ' ' | sed 's/ $//')"
