#!/bin/sh
# SPDX-License-Identifier: MIT
# One limit for all processes of a job, by any race; a killed process's share comes back.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576
export SOFTGPU_CONTEXT_MEMORY=1M

# Four processes race for what their contexts leave of 36 MiB, 32; each wants 32, the rest is
# refused because nothing may spill.
printf '[job]\nname = race\n[gpu]\nmemory = 36MiB\nspill = off\n' >"$scratch/race.ini"
export SPILLWAY_CONFIG="$scratch/race.ini"
for i in 1 2 3 4; do
	under_shim "$allocate" --mib 2 --count 16 --rounds 150 --hold-ms 5 >"$scratch/out.$i" 2>&1 &
	eval "pid$i=$!"
done
most=0 samples=0
# shellcheck disable=SC2154 # set by eval
while kill -0 "$pid1" 2>/dev/null; do
	held=$(device_bytes)
	[ "$held" -le "$most" ] || most=$held
	samples=$((samples + 1))
	sleep 0.02
done
wait || true
for i in 1 2 3 4; do
	has "process $i" "$(tail -n 1 "$scratch/out.$i")" "ok bad=0"
done
[ "$most" -le $((40 * mib)) ] ||
	fail "the job held $most bytes; its limit is 36 MiB, beyond which only the 4 contexts may come, of 1 MiB each"
[ "$samples" -gt 0 ] || fail "no sample was taken"
refused=$(cat "$scratch"/out.* | sed -n 's/.*refused=\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
[ "$refused" -gt 0 ] || fail "four processes of 32 MiB each were never refused"

# A process killed while it holds everything: charged until its end is sure, then free again.
printf '[job]\nname = kill\n[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/race.ini"
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$allocate" --mib 8 --count 2 --hold-ms 600000 \
	--ready "$scratch/ready" >"$scratch/killed" 2>&1 &
victim=$!
until_true $patience test -e "$scratch/ready" || fail "not ready: $(cat "$scratch/killed")"
has "held" "$(under_shim "$allocate" --mib 8 --count 1)" "blocks=0 refused=1"
kill -KILL $victim
wait $victim || true
has "rerun after a kill" "$(under_shim "$allocate" --mib 8 --count 2)" "blocks=2 refused=0"

# A program that exits by itself without freeing, as an error between makes this one do: again and
# again.
printf '[job]\nname = exit\n[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/race.ini"
exits_holding() (
	export SOFTGPU_FAIL=cuPointerGetAttribute:1=999
	under_shim "$allocate" --mib 8 --count 2 2>&1 || true
)
for i in 1 2 3; do
	held=$(exits_holding)
	has "run $i, exits" "$held" "cuPointerGetAttribute"
	has "run $i, holds all" "$held" "blocks=2 refused=0"
done

# gone: an ended job leaves nothing after doctor --clean, once the driver can have given its memory
# back.
is_cleaned() {
	"$spillway" doctor --clean >"$scratch/doctor" 2>&1 || true
	[ ! -e "$SPILLWAY_STATE_DIR/$1.segment" ]
}
gone() {
	until_true $patience is_cleaned "$1" || fail "job $1 was not cleaned away: $(cat "$scratch/doctor")"
}
gone exit

# The same for a killed one whose death nobody has noticed.
printf '[job]\nname = alone\n[gpu]\nmemory = 17MiB\n' >"$scratch/race.ini"
rm "$scratch/ready"
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$allocate" --hold-ms 600000 --ready "$scratch/ready" >"$scratch/killed" 2>&1 &
victim=$!
until_true $patience test -e "$scratch/ready" || fail "not ready: $(cat "$scratch/killed")"
kill -KILL $victim
wait $victim || true
gone alone

# Programs of one run, one after the other, are counted together.
printf '[job]\nname = sum\n[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/race.ini"
refusals_after() {
	export SPILLWAY_RUN="$1"
	under_shim "$allocate" --mib 8 --count 3 >"$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
	"$spillway" stat sum --json | grep -o '"refusals":[0-9]*' | head -n 1 | cut -d : -f 2
}
same "refusals of one program" 1 "$(refusals_after a)"
same "refusals of two" 2 "$(refusals_after a)"
same "refusals of another run" 1 "$(refusals_after b)"
same "refusals of a run without a name" 1 "$(refusals_after "")"
