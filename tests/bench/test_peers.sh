#!/bin/sh
# SPDX-License-Identifier: MIT
# The table beside other libraries: medians with ranges. A failure is reported, and a missing
# library is an error.
set -eu
cd "$(dirname "$0")/../.."
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
fail() {
	echo "$1"
	cat "$at/said"
	exit 1
}
for sample in "launch none 2" "launch none 4" "launch none 3" "launch spillway 8.25" "init spillway failed" "launch other 1200.4"; do
	echo "$sample"
done | awk -v libraries="none spillway other" -f tests/bench/peers.awk >"$at/said"
grep -Eq '^median \[range\] +none +spillway +other *$' "$at/said" || fail "no head"
grep -Eq '^launch +3\.00 \[2\.00-4\.00\] +8\.25 \[8\.25-8\.25\] +1200 \[1200-1200\]$' "$at/said" || fail "no row"
grep -Eq '^init +1 failed$' "$at/said" || fail "a failure is not said"
# Eight times 64 MiB are 256 more than the limit, which only one of the two holds.
build=${BUILD:-build}
ROUNDS=1 PARTS=race BUILD=$build tests/bench/peers "$build/tests/e2e/empty.so" >"$at/said" 2>&1 ||
	fail "the race failed"
grep -Eq '^race_beyond_mib +0\.00 \[0\.00-0\.00\] +256 \[256-256\]$' "$at/said" || fail "who holds a limit in a race is not told"
if BUILD=${BUILD:-build} tests/bench/peers "$at/none.so" >"$at/said" 2>&1; then fail "a library that is not there was measured"; fi
grep -q "^peers: $at/none.so: no such file$" "$at/said" || fail "it is not called by its name"
