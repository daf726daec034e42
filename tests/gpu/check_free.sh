#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory is freed while a kernel uses it, and as much is allocated and written at once. Neither the
# kernel nor the new memory sees the other. The free waits or is deferred, on the host, on both
# tiers and on the device.
set -eu
. tests/gpu/needs.sh
need_gpu
context=$(context_bytes)

out=$("$BUILD/tests/e2e/free" waits) || fail "without Spillway: $out"
for mib in 1 9 512; do
	limit_file "$TMPDIR/waits.ini" $((context + (mib << 20)))
	limit_file "$TMPDIR/deferred.ini" $((context + (mib << 20))) "deferred_free = yes"
	for how in waits deferred; do
		out=$("$BUILD/spillway" run --quiet --name "free-$how-$mib" --config "$TMPDIR/$how.ini" \
			timeout 120 "$BUILD/tests/e2e/free" $how 2>&1) || fail "$how, $mib MiB: exit status $?: $out"
		echo "$how, $mib MiB: $out"
	done
done
