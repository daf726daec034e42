#!/bin/sh
# Python's multiprocessing under one limit, started in each of its ways: the workers' results are
# right, they share the limit, and when all is over nobody lives and nothing is left.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh

for method in fork spawn forkserver; do
	out=$(limited_client "pool-$method" 6MiB 100 $here/pool_sums.py $method) || fail "$method: status $?: $out"
	has "$method" "$out" "wrong=0 workers=2"
	at_least "$method: spilled bytes" 1 "$(counter "pool-$method" spilled_bytes)"
	[ "$(counter "pool-$method" device_peak)" -le $((6 << 20)) ] || fail "$method: more than its limit: $("$spillway" stat "pool-$method")"
	case $("$spillway" stat "pool-$method" --json) in
	*'"state":"live"'*) fail "$method: somebody lives: $("$spillway" stat "pool-$method")" ;;
	esac
	same "$method: device bytes held when it is over" 0 "$(device_bytes)"
done
