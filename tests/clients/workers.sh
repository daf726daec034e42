# SPDX-License-Identifier: MIT
# Sourced by the tests of Python's multiprocessing, after tests/e2e/lib.sh.
# shellcheck shell=sh disable=SC2154

# judge_workers ENGINE DIRECT COMMAND...: workers.py under a limit of 16 MiB, started in each way,
# makes the sums that stand in DIRECT, the output of the direct run. The workers share the limit.
# When all is over none lives, and nothing is held or charged.
judge_workers() {
	engine=$1 direct=$2
	shift 2
	expected=$(field checksum "$direct")
	[ -n "$expected" ] || fail "$engine alone: $direct"
	said=$("$@" fork spawn forkserver 2>&1) || fail "$engine: status $?: $said"
	printf '%s\n' "$said" | grep -E '^(workers|spillway):'
	for way in fork spawn forkserver; do
		same "$engine, $way" "$expected" "$(field checksum "$(printf '%s\n' "$said" | grep "^workers: $way ")")"
	done
	has "$engine" "$said" "workers: end"
	same "$engine: refusals" 0 "$(counter "$engine" refusals)"
	[ "$(counter "$engine" host_peak)" -gt 0 ] || fail "$engine has had nothing on the host"
	[ "$(counter "$engine" device_peak)" -le $((16 << 20)) ] || fail "$engine: more than its limit: $("$spillway" stat "$engine")"
	same "$engine: device bytes held when it is over" 0 "$(device_bytes)"
	until_true "$patience" is_over "$engine" || fail "$engine is not over: $("$spillway" stat "$engine" --json)"
}

is_over() { # is_over JOB: no process has a slot, and nothing is charged
	stat=$("$spillway" stat "$1" --json)
	case $stat in *'"processes":[]'*) ;; *) return 1 ;; esac
	[ "$(counter "$1" device_charged) $(counter "$1" host_charged)" = "0 0" ]
}
