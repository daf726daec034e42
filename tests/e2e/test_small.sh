#!/bin/sh
# SPDX-License-Identifier: MIT
# Small allocations without an arena. A job's memory on the device, by the software GPU's own books,
# is within its limit, and stat shows that amount.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
small=$build/tests/e2e/small
mib=1048576

# hold WHO KIB COUNT [arrays]: a process of the job that has it
hold() {
	rm -f "$scratch/ready.$1"
	under_shim "$small" "${4-hold}" "$2" "$3" "$scratch/ready.$1" "$scratch/end" &
	until_true $patience test -s "$scratch/ready.$1" || fail "$1: not ready"
}
got() { cat "$scratch/ready.$1"; }

# beside LIMIT [arrays]: eight processes with 4 KiB each beside 24 MiB; how many of them get it
beside() {
	rm -f "$scratch/end"
	export SPILLWAY_MEMORY="$1"
	hold large 8192 3
	same "large allocations" 3 "$(got large)"
	for i in 1 2 3 4 5 6 7 8; do
		hold $i 4 1 ${2-hold}
	done
	held=$(device_bytes) served=0 shown=$(counter "$SPILLWAY_JOB" device_used)
	for i in 1 2 3 4 5 6 7 8; do
		served=$((served + $(got $i)))
	done
	: >"$scratch/end"
	wait
	same "$SPILLWAY_JOB: shown and held" "$shown" "$held"
}

export SPILLWAY_HOST_MEMORY=64MiB
for spill in off managed pinned none; do
	export SPILLWAY_SPILL=$spill SPILLWAY_JOB=tight-$spill
	if [ $spill = none ]; then
		export SPILLWAY_SPILL=auto SOFTGPU_NO_VMM=1
	fi
	beside 24.06MiB
	same "$SPILLWAY_JOB: held" $((24 * mib)) "$held"
	if [ $spill = off ]; then expected=0; else expected=8; fi
	same "$SPILLWAY_JOB: served" $expected "$served"
done
export SPILLWAY_JOB=wide SPILLWAY_SPILL=off
beside 40MiB
same "wide: held, served" "$((40 * mib)) 8" "$held $served"

# An array of 4 KiB has a block of 2 MiB, too, which is charged before the driver is asked for it.
# NVML knows what the driver took, or else the device's free memory.
export SPILLWAY_JOB=arrays-tight
beside 24.06MiB arrays
same "arrays-tight: held, served" "$((24 * mib)) 0" "$held $served"
export SPILLWAY_JOB=arrays-wide SOFTGPU_NVML=host
beside 32.06MiB arrays
unset SOFTGPU_NVML
same "arrays-wide: held, served" "$((32 * mib)) 4" "$held $served"

# Many share a slab: 2048 of 4 KiB have four, and the program may have as many as fit.
rm -f "$scratch/end"
export SPILLWAY_JOB=many SPILLWAY_MEMORY=8MiB
hold many 4 3000
same "many: served" 2048 "$(got many)"
same "many: held" $((8 * mib)) "$(device_bytes)"
: >"$scratch/end"
wait

# A program with a pool of its own asks for whole blocks, and is charged them as before.
rm -f "$scratch/end"
export SPILLWAY_JOB=pool SPILLWAY_MEMORY=8MiB
hold pool 2048 9
same "pool: served, held, shown" "4 $((8 * mib)) $((8 * mib))" "$(got pool) $(device_bytes) $(counter pool device_used)"
: >"$scratch/end"
wait

# To the program they are as the driver's own.
export SPILLWAY_MEMORY=64MiB
for spill in off pinned; do
	export SPILLWAY_JOB=check-$spill SPILLWAY_SPILL=$spill
	said="lies in a block of 2 MiB with others"
	built_in ipc || export GIVES_MEMORY=no said="the module 'ipc', which is not built in"
	under_shim "$small" check >"$scratch/check" 2>&1 || fail "check: $spill: $(cat "$scratch/check")"
	has "$spill: the log" "$(cat "$scratch/check")" "$said"
done
same "what is left" 0 "$(device_bytes)"
