#!/bin/sh
# SPDX-License-Identifier: MIT
# A process with Spillway dies as soon as one without when it is killed, on a busy machine. Of 1,000
# kills the longest takes at most a second longer than the longest without Spillway in the same run.
# KILLS, KILL_LOAD: how many, and beside how many processes that compute. KILL_ALSO: libraries of
# another build, which are measured beside these.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
SPILLWAY_MEMORY=8MiB
LD_LIBRARY_PATH=$softgpu
export SPILLWAY_MEMORY LD_LIBRARY_PATH
mkdir "$scratch/kills"

# What is killed has memory on the GPU and on the host.
SPILLWAY_JOB=looked-at LD_PRELOAD=$shim "$build/tests/e2e/allocate" --mib 4 --count 4 --ready "$scratch/ready" --until "$scratch/stop" >"$scratch/out" 2>&1 &
until_true $patience test -e "$scratch/ready" || fail "it does not begin: $(cat "$scratch/out")"
for tier in device host; do
	[ "$(counter looked-at ${tier}_used)" -gt 0 ] || fail "it has nothing in ${tier}_used"
done
touch "$scratch/stop"
wait

"$build/tests/e2e/kill_times" "${KILLS:-1000}" "${KILL_LOAD:-10}" "$scratch/kills" "$build/tests/e2e/allocate" \
	direct= spillway="$shim" ${KILL_ALSO:+other="$KILL_ALSO"} >"$scratch/times" 2>"$scratch/errors" || fail "$(cat "$scratch/errors")"
cat "$scratch/times"
echo "load averages: $(cat /proc/loadavg)"
direct=$(field longest_ms "$(grep ^direct "$scratch/times")") ours=$(field longest_ms "$(grep ^spillway "$scratch/times")")
[ "$ours" -le $((direct + 1000)) ] || fail "a killed process takes up to $ours ms to die, without Spillway $direct ms"
