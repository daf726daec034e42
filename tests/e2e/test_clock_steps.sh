#!/bin/sh
# SPDX-License-Identifier: MIT
# The settable clock is set by days and years, forward and back, while jobs run. A dead process's
# memory is neither taken for gone nor held for days. Limits and pauses are followed, processes are
# asked, and the output stays readable.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
[ "${SANITIZER:-}" != thread ] || {
	echo "the sanitizer replaces the clock itself"
	exit 77
}
step=$scratch/step
allocate=$build/tests/e2e/allocate
printf '[job]\nname = clock\n[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/clock.ini"
export SPILLWAY_CONFIG="$scratch/clock.ini" CLOCK_STEP="$step"
stepping() { LD_PRELOAD="$build/tests/e2e/clock_step.so $shim" LD_LIBRARY_PATH=$softgpu "$@"; }
# The tool's clock is that of the jobs, of course.
tool() { LD_PRELOAD="$build/tests/e2e/clock_step.so" "$spillway" "$@"; }
holds() { # holds: a process with all the limit allows; its number in $victim
	rm -f "$scratch/ready"
	LD_PRELOAD="$build/tests/e2e/clock_step.so $shim" LD_LIBRARY_PATH=$softgpu "$allocate" --mib 8 --count 2 --hold-ms 600000 --ready "$scratch/ready" >"$scratch/held" 2>&1 &
	victim=$!
	until_true $patience test -e "$scratch/ready" || fail "not ready: $(cat "$scratch/held")"
}

# has_all: a process gets all the limit allows, once the memory of the dead is sure to be back
has_all() { case $(stepping "$allocate" --mib 8 --count 2 2>&1) in *"blocks=2 refused=0"*) ;; *) return 1 ;; esac; }

day=86400
echo 0 >"$step"
for by in $day -$day; do
	# It dies after the clock was set. Who comes then waits for its memory, or is refused; it
	# does not have it twice.
	holds
	echo $by >"$step"
	has "while it lives, $by" "$(stepping "$allocate" --mib 8 --count 1 2>&1)" "blocks=0 refused=1"
	tool set clock --memory 16MiB --timeout $patience >"$scratch/out" 2>&1 || fail "set, $by: $(cat "$scratch/out")"
	has "set, $by" "$(cat "$scratch/out")" "limit 16.0 MiB"
	tool stat clock >"$scratch/out" 2>&1 || fail "stat, $by: $(cat "$scratch/out")"
	has "stat, $by" "$(cat "$scratch/out")" "running since"
	if built_in resources; then
		tool stat clock --resources >"$scratch/out" 2>&1 || fail "stat --resources, $by: $(cat "$scratch/out")"
		has "its allocations, $by" "$(cat "$scratch/out")" "8.00 MiB"
	fi
	kill -KILL $victim
	wait $victim || true
	until_true $patience has_all || fail "after it, $by: $(tool stat clock)"
	# The clock is set after the death that nobody has noticed.
	holds
	kill -KILL $victim
	wait $victim || true
	echo 0 >"$step"
	until_true $patience has_all || fail "a death before the step, $by: $(tool stat clock)"
	tool stat clock >"$scratch/out" 2>&1 || fail "stat afterwards, $by: $(cat "$scratch/out")"
	has "stat afterwards, $by" "$(cat "$scratch/out")" "ended"
done

# The clock is set back by years between the beginning of a run and its first process: the summary
# is of this run all the same, and no earlier run is taken for it.
year=$((365 * day))
unset SPILLWAY_CONFIG
for by in -$((20 * year)) $((20 * year)); do
	echo 0 >"$step"
	SPILLWAY_DRIVER=$softgpu/libcuda.so.1 LD_LIBRARY_PATH=$softgpu tool run --name stepped --memory 8MiB -- \
		sh -c "echo $by >$step; exec $allocate --mib 8 --count 2" >"$scratch/out" 2>&1 || fail "run, $by: $(cat "$scratch/out")"
	has "summary, $by" "$(cat "$scratch/out")" "stepped: GPU at most"
	echo 0 >"$step"
	tool run --name stepped --memory 8MiB -- true >"$scratch/out" 2>&1 || fail "run, $by: $(cat "$scratch/out")"
	case $(cat "$scratch/out") in *"stepped: GPU at most"*) fail "an earlier run is told of, $by: $(cat "$scratch/out")" ;; esac
done
