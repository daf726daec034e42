#!/bin/sh
# SPDX-License-Identifier: MIT
# A pause belongs to the job's life: it ends with the last process and with a boot. A process that
# joins a paused job says so. pause and resume work with any content of the override file.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
launches=$build/tests/e2e/launch_often
SPILLWAY_JOB=life
export SPILLWAY_JOB
override=$SPILLWAY_STATE_DIR/life.override.ini
paused=$SPILLWAY_STATE_DIR/life.pause.ini

# begin LAUNCHES: in the background
begin() {
	: >"$scratch/err"
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$launches" "$1" >"$scratch/out" 2>"$scratch/err" &
	running=$!
}
is_there() { "$spillway" stat life --json 2>/dev/null | grep -q '"state":"running"'; }
waits() { "$spillway" stat life --json | grep -q '"paused":1'; }
end() {
	kill -KILL $running
	wait $running 2>/dev/null || true
}
# finishes TEXT: a process that comes now is not held
finishes() {
	begin 400
	finished=$running
	until_true $patience is_over "$finished" || fail "$1: stands still: $(cat "$scratch/err")"
}
is_over() { ! kill -0 "$1" 2>/dev/null; }

# Paused and killed: the next one runs, and says why.
begin 100000000
until_true $patience is_there || fail "not started: $(cat "$scratch/err")"
"$spillway" pause --timeout $patience life >/dev/null
until_true $patience waits || fail "is not paused: $("$spillway" stat life)"
has "the pause" "$(cat "$paused")" "by = $(id -un)"
has "stat of a paused job" "$("$spillway" stat life)" "paused by $(id -un) since 20"
"$spillway" doctor >"$scratch/doctor" 2>&1 || true
has "the list" "$("$spillway" stat | tr -s ' ')" "life $(id -un) paused 1 0 "
has "doctor of a paused job" "$(cat "$scratch/doctor")" "job life: is paused by $(id -un) since 20"
has "doctor of a paused job" "$(cat "$scratch/doctor")" "spillway resume life"

# A second process of the paused job says so in a line, and how it goes on.
first=$running
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$launches" 100000000 >"$scratch/out2" 2>"$scratch/err2" &
second=$!
until_true $patience grep -q "resume" "$scratch/err2" || fail "nothing is said: $(cat "$scratch/err2")"
has "a process that comes to a paused job" "$(cat "$scratch/err2")" "job life: paused by $(id -un) since 20"
has "a process that comes to a paused job" "$(cat "$scratch/err2")" "let it go on by 'spillway resume life'"
kill -KILL $second
wait $second 2>/dev/null || true

# Nonsense in the override, by hand or of a later version: the last good settings stay, resume and
# pause work, and stat says what is wrong.
"$spillway" set --timeout $patience life --memory 64MiB >/dev/null
printf '[gpu]\nmemory = 64MiB\nwarp_drive = yes\n\000\001[[' >"$override"
refused() { "$spillway" stat life | grep -q "refused: .*warp_drive: unknown key"; }
until_true $patience refused || fail "stat does not say that it is refused: $("$spillway" stat life)"
"$spillway" resume --timeout $patience life >"$scratch/out3"
has "resumed over nonsense" "$(cat "$scratch/out3")" "limit 64.0 MiB, share 100 %"
"$spillway" pause --timeout $patience life >"$scratch/out3"
has "paused over nonsense" "$(cat "$scratch/out3")" "share 0 %"
before=$(cksum <"$override")
"$spillway" set life --memory 32MiB >"$scratch/out3" 2>&1 && fail "set took a file of nonsense"
same "what is refused leaves the file" "$before" "$(cksum <"$override")"
rm "$override"
running=$first
end
"$spillway" doctor >"$scratch/doctor" 2>&1 || true
has "doctor of a pause left over" "$(cat "$scratch/doctor")" "job life: ended while it was paused by $(id -un)"
finishes "paused and killed"
has "paused and killed" "$(cat "$scratch/err")" "job life: it was paused by $(id -un) when its last process ended: that is over"
[ ! -e "$paused" ] || fail "the pause of a job that has ended is there"

# What was set contradicts the job's file: the stronger one wins, and the job obeys every command.
printf '[gpu]\nmemory_max = 50MiB\n' >"$scratch/job.ini"
export SPILLWAY_CONFIG="$scratch/job.ini"
begin 100000000
until_true $patience is_there || fail "not started: $(cat "$scratch/err")"
"$spillway" set --timeout $patience life --memory 60MiB >"$scratch/out3" || fail "set --memory 60MiB"
"$spillway" set --timeout $patience life --share 50 >"$scratch/out3" || fail "set --share 50"
has "beyond memory_max" "$(cat "$scratch/out3")" "limit 60.0 MiB, share 50 %"
"$spillway" pause --timeout $patience life >"$scratch/out3" || fail "pause after set"
has "paused" "$(cat "$scratch/out3")" "share 0 %"
"$spillway" resume --timeout $patience life >"$scratch/out3" || fail "resume after set"
has "resumed" "$(cat "$scratch/out3")" "share 50 %"
# The file turns into nonsense: its last good text stays, and what is set is in force.
printf 'nonsense\n' >"$scratch/job.ini"
"$spillway" pause --timeout $patience life >"$scratch/out3" || fail "pause beside a bad file"
"$spillway" resume --timeout $patience life >"$scratch/out3" || fail "resume beside a bad file"
"$spillway" set --timeout $patience life --share 40 >"$scratch/out3" || fail "set beside a bad file"
has "set beside a bad file" "$(cat "$scratch/out3")" "limit 60.0 MiB, share 40 %"
end
unset SPILLWAY_CONFIG
rm "$override"

# Likewise where the last process ends by itself; a pause of another boot pauses nobody.
begin 100000000
until_true $patience is_there || fail "not started: $(cat "$scratch/err")"
printf '[pause]\nevict = no\nby = root\nsince = 1\nat = 99999999999999999\nboot = another\n' >"$paused"
"$spillway" pause --timeout $patience life >/dev/null
until_true $patience waits || fail "is not paused: $("$spillway" stat life)"
kill -TERM $running
wait $running 2>/dev/null || true
printf '[pause]\nevict = no\nby = root\nsince = 1\nat = 99999999999999999\nboot = another\n' >"$paused"
finishes "a pause of another boot"
[ ! -e "$paused" ] || fail "a pause of another boot stays"
