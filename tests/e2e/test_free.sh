#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory is freed while a kernel uses it, and as much is allocated and written at once. Neither the
# kernel nor the new memory sees the other. The free waits or is deferred, on the device, on the
# host, and on both.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
free=$build/tests/e2e/free

same "without Spillway" ok "$(on_softgpu timeout 200 "$free" waits)"
# The host, both tiers, the device.
for limit in 1 9 512; do
	limit_file "$scratch/waits.ini" $((limit * mib))
	limit_file "$scratch/deferred.ini" $((limit * mib)) "deferred_free = yes"
	for how in waits deferred; do
		name=$how-$limit
		out=$("$spillway" run --softgpu --quiet --name "$name" --config "$scratch/$how.ini" timeout $patience "$free" $how 2>&1) ||
			fail "$name: exit status $?: $out"
		same "$name" ok "$out"
		same "$name: all is given back" "0 0" "$(counter "$name" device_used) $(counter "$name" host_used)"
		[ $limit != 1 ] || [ "$(counter "$name" spilled_bytes)" -gt 0 ] || fail "$name: nothing was on the host"
	done
done
