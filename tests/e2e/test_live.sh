#!/bin/sh
# SPDX-License-Identifier: MIT
# Limits and shares change while the job runs; a bad value changes nothing and is reported.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576
state() { "$spillway" stat live --json; }

printf '[gpu]\nmemory = 32MiB\n' >"$scratch/live.ini"
"$spillway" run --softgpu --quiet --name live --config "$scratch/live.ini" "$allocate" --mib 8 --count 4 \
	--rounds 100000 --hold-ms 20 >"$scratch/out" 2>"$scratch/err" &
runner=$!
until_true $patience grep -q "round 1:" "$scratch/out" || fail "not started: $(cat "$scratch/err")"
has "nothing spilled at 32 MiB" "$(state)" '"spilled_bytes":0'

# set: new allocations obey the new limit.
"$spillway" set --timeout $patience live --memory 16MiB >/dev/null
spilled() { case $(state) in *'"spilled_bytes":0'*) return 1 ;; esac; }
until_true $patience spilled || fail "lowered to 16 MiB, nothing spilled: $(state)"
until_true $patience grep -q "total=$((16 * mib))" "$scratch/out" || fail "the program is not told of 16 MiB"
"$spillway" set --timeout $patience live --memory 64MiB >/dev/null
until_true $patience grep -q "total=$((64 * mib))" "$scratch/out" || fail "the program is not told of 64 MiB"

# The file the job was started with counts less than set; a key set does not name follows the file.
printf '[gpu]\nmemory = 24MiB\nhost_memory = 1GiB\n' >"$scratch/new.ini"
mv "$scratch/new.ini" "$scratch/live.ini"

# A bad line: the last good configuration stays, the line is named, stat shows it.
printf '[gpu]\nmemory = 8Gx\n' >"$scratch/new.ini"
mv "$scratch/new.ini" "$scratch/live.ini"
until_true $patience grep -q "live.ini:2: memory = 8Gx: expected a size" "$scratch/err" ||
	fail "the bad line is not said: $(cat "$scratch/err")"
complains() { case $("$spillway" stat live) in *"8Gx"*) ;; *) return 1 ;; esac; }
until_true $patience complains || fail "stat does not show the bad line: $("$spillway" stat live)"
has "the limit stays" "$(state)" "\"limit_set\":$((64 * mib))"

kill $runner
wait $runner || true
case $(cat "$scratch/out") in *WRONG*) fail "a byte was wrong" ;; esac
