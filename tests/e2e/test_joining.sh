#!/bin/sh
# SPDX-License-Identifier: MIT
# A process that cannot join its job has no part of the job's limits. None of its memory is on the
# GPU, one line gives the reason, and the program goes on. Without a limit it runs as ever.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576

# keep_out HOW: nobody can join the job any more
keep_out() {
	# It holds more process slots' locks in one thread than the thread sanitizer can follow.
	TSAN_OPTIONS=detect_deadlocks=0 "$build/tests/e2e/crowd" "$1" >"$scratch/crowd" 2>&1 &
	crowd=$!
	until_true $patience grep -q held "$scratch/crowd" || fail "$1: not held: $(cat "$scratch/crowd")"
}

# start ARGUMENTS...: the program, until it holds its memory, which it does until end
start() {
	rm -f "$scratch/ready" "$scratch/end"
	LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$allocate" --mib 8 --ready "$scratch/ready" --until "$scratch/end" "$@" >"$scratch/out" 2>"$scratch/err" &
	program=$!
	until_true $patience test -e "$scratch/ready" || fail "not ready: $(cat "$scratch/out" "$scratch/err")"
}

end() {
	: >"$scratch/end"
	wait $program || fail "status $?: $(cat "$scratch/out" "$scratch/err")"
	has "bytes" "$(cat "$scratch/out")" "ok bad=0"
}

# stays_out WHY: with each kind of limit
stays_out() {
	for limits in "MEMORY=17MiB" "MEMORY=17MiB MEMORY_MAX=1GiB" "MEMORY=50%"; do
		# shellcheck disable=SC2163 # NAME=value each
		for limit in $limits; do export "SPILLWAY_$limit"; done
		start --count 4
		same "$limits: bytes on the device" 0 "$(device_bytes)"
		has "$limits" "$(cat "$scratch/out")" "blocks=4 refused=0"
		has "$limits" "$(cat "$scratch/err")" "$1; this process is not in the job's books"
		same "$limits: lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
		end
		unset SPILLWAY_MEMORY SPILLWAY_MEMORY_MAX
	done
	# A number of bytes on the host is a quota, too; what cannot be placed is refused.
	SPILLWAY_MEMORY=17MiB SPILLWAY_HOST_MEMORY=1GiB start --count 2
	has "host limit" "$(cat "$scratch/out")" "blocks=0 refused=2"
	end
	SPILLWAY_MEMORY=17MiB SPILLWAY_SPILL=off start --count 2
	has "spill = off" "$(cat "$scratch/out")" "blocks=0 refused=2"
	end
	start --count 2
	same "without a limit" $((16 * mib)) "$(device_bytes)"
	has "without a limit" "$(cat "$scratch/err")" "$1; this process is not in the job's books: no memory is limited, and spillway stat does not show it"
	# Other jobs see it by its peer record, which goes with it.
	until_true $patience sh -c "[ -n \"\$(find '$SPILLWAY_STATE_DIR' -name 'card-*')\" ]" || fail "it has no record"
	end
	same "peers" "" "$(find "$SPILLWAY_STATE_DIR" -name 'card-*')"
}

export SPILLWAY_JOB=crowded
keep_out slots
stays_out "crowded.segment: has 4096 processes already, expected fewer"

# A limit that comes later holds none of it, either.
is_on_device() { [ "$(device_bytes)" -eq "$1" ]; }
start --count 2
same "before a limit" $((16 * mib)) "$(device_bytes)"
"$spillway" set crowded --memory 1GiB --timeout 1ms >"$scratch/set" 2>&1 || true # the crowd follows nothing
until_true $patience is_on_device 0 || fail "limited later: $(device_bytes) bytes on the device: $(cat "$scratch/set")"
kill $program
wait $program || true
kill $crowd
wait $crowd || true

export SPILLWAY_JOB=locked
keep_out lock
SPILLWAY_MEMORY=17MiB start --count 4
has "locked" "$(cat "$scratch/err")" ".lock: job locked cannot be locked: Device or resource busy; this process is not in the job's books"
same "locked: bytes on the device" 0 "$(device_bytes)"
end
kill $crowd
