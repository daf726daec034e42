#!/bin/sh
# SPDX-License-Identifier: MIT
# A program looks at the memory's size before it allocates. With --reported-memory limit+host it
# finds enough and spills. Otherwise it ends without a refusal, and a line names a remedy. One that
# ran fine is not.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576

# looks JOB EXPECTED_STATUS OPTIONS... -- PROGRAM...: what was said is in $err
looks() {
	job=$1 expected=$2
	shift 2
	status=0
	"$spillway" run --softgpu --name "$job" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
	same "$job: exit status" "$expected" $status
	err=$(cat "$scratch/err")
}
hint='--reported-memory limit+host'
silent() { case $err in *"$hint"*) fail "$job: a hint for nothing: $err" ;; esac }

looks looker 3 --memory 16MiB "$allocate" --look --count 8
has "the hint" "$err" "spillway: looker: gpu 0: it asked for the memory's size and was told 16.0 MiB of 2.00 GiB, its limit"
has "the hint" "$err" "$hint"
has "the program" "$(cat "$scratch/out")" "the device has $((16 * mib)) bytes, too few"
same "questions" 1 "$(counter looker reported_limit)"
# doctor, which knows no exit status, sees that nothing was launched.
out=$(SPILLWAY_DRIVER=$softgpu/libcuda.so.1 SOFTGPU_QUIET=1 "$spillway" doctor) || true
has "doctor" "$out" "job looker: ended without a launch: gpu 0: it asked for the memory's size and was told 16.0 MiB"

# What the hint says helps.
looks helped 0 --memory 16MiB --reported-memory limit+host "$allocate" --look --count 8
silent
has "helped" "$(cat "$scratch/out")" "blocks=8 refused=0"
same "nothing hidden" 0 "$(counter helped reported_limit)"
[ "$(counter helped spilled_bytes)" -gt 0 ] || fail "helped: nothing was spilled"
export SPILLWAY_REPORTED_MEMORY=limit+host
looks by-environment 0 --memory 16MiB "$allocate" --look --count 8
unset SPILLWAY_REPORTED_MEMORY

# TensorFlow takes a part of the total, so by `auto` it is told the GPU's own, and takes what it
# needs. One that takes its part at once is told the limit, and so is another program.
cp "$build/tests/e2e/empty.so" "$scratch/libtensorflow_cc.so.2"
LD_PRELOAD=$scratch/libtensorflow_cc.so.2 looks part 0 --memory 16MiB "$allocate" --look --count 8
has "part" "$(cat "$scratch/out")" "blocks=8 refused=0"
LD_PRELOAD=$scratch/libtensorflow_cc.so.2 looks beyond-part 3 --memory 16MiB "$allocate" --look --mib 512 --count 8
has "the GPU's own total" "$(cat "$scratch/out")" "the device has $((2048 * mib)) bytes, too few"
LD_PRELOAD=$scratch/libtensorflow_cc.so.2 looks part-of-host 3 --memory 16MiB --host-memory 10MiB "$allocate" --look --count 8
has "the limit and the host's" "$(cat "$scratch/out")" "the device has $((26 * mib)) bytes, too few"
LD_PRELOAD=$scratch/libtensorflow_cc.so.2 looks part-as-told 3 --memory 16MiB --reported-memory limit "$allocate" --look --count 8
TF_FORCE_GPU_ALLOW_GROWTH=false LD_PRELOAD=$scratch/libtensorflow_cc.so.2 \
	looks at-once 3 --memory 16MiB "$allocate" --look --count 8
has "its part at once" "$(cat "$scratch/out")" "the device has $((16 * mib)) bytes, too few"

# It is told, and runs; it fails for another reason after it took its memory; it is refused; nothing
# is limited; a user stops it.
looks fits 0 --memory 80MiB "$allocate" --look --count 8
silent
looks took 5 --memory 80MiB sh -c '"$0" --look --count 8 && exit 5' "$allocate"
silent
looks spilled 5 --memory 16MiB sh -c '"$0" --count 8 && exit 5' "$allocate"
silent
looks refused 5 --memory 16MiB --host-memory 1MiB sh -c '"$0" --count 1 && "$0" --mib 32 --count 1 && exit 5' "$allocate"
silent
looks unlimited 3 "$allocate" --look --mib 512 --count 8
silent
looks stopped 143 --memory 16MiB sh -c '"$0" --look --count 8 || kill -TERM $$' "$allocate"
silent

# A running job can be given it, too.
"$spillway" run --softgpu --quiet --name live --memory 64MiB "$allocate" --count 1 --rounds 100000 >"$scratch/rounds" 2>&1 &
runner=$!
says_total() { tail -n 20 "$scratch/rounds" | grep -q "^round .* total=$1 "; }
until_true $patience says_total $((64 * mib)) || fail "live: $(tail -n 3 "$scratch/rounds")"
"$spillway" set --timeout $patience --reported-memory limit+host live >"$scratch/set" || fail "set: $(cat "$scratch/set")"
more_than_limit() { [ "$(tail -n 2 "$scratch/rounds" | sed -n 's/.* total=\([0-9]*\) .*/\1/p' | head -n 1)" -gt $((64 * mib)) ]; }
until_true $patience more_than_limit || fail "live: still told $(tail -n 3 "$scratch/rounds")"
kill $runner
wait $runner || true
! "$spillway" run --reported-memory everything true 2>"$scratch/err" || fail "a wrong word is taken"
has "a wrong word" "$(cat "$scratch/err")" "--reported-memory 'everything': expected auto, limit or limit+host"
