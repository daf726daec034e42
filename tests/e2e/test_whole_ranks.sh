#!/bin/sh
# turn = whole for a job whose ranks are processes, a device each: a rank that has left the device
# launches what the kernels of another one wait for, which could not leave otherwise. Each time that
# its turn ends the ranks have launched differently far.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=64M SOFTGPU_DEVICES=2
load=$build/clients/pace_load

# starts JOB OPTIONS
starts() {
	job=$1
	shift
	"$spillway" run --softgpu --quiet --name "$job" --turn whole --turn-length 300ms "$load" --asleep "$@" \
		--kernel-us 1000 --seconds 1000 >"$scratch/$job" 2>"$scratch/$job.errors" &
}
# has_turns JOB GPU COUNT
has_turns() { [ "$("$spillway" events "$1" | grep -c "  gpu $2  turn ")" -ge "$3" ]; }
says() { cat "$scratch/$1.errors" && "$spillway" stat "$1"; }

starts ranks --ranks 2 --processes
starts single
until_true $patience has_turns ranks 0 4 || fail "ranks: few turns: $(says ranks)"
until_true $patience has_turns ranks 1 4 || fail "ranks: few turns: $(says ranks)"
until_true $patience has_turns single 0 4 || fail "single: few turns: $(says single)"
! grep "turns are fine" "$scratch/ranks.errors" "$scratch/single.errors" || fail "turns were not had"
