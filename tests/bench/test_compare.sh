#!/bin/sh
# SPDX-License-Identifier: MIT
# A row is slower only when it lies outside of the base's own spread. Rows of one side alone are
# named.
set -eu
cd "$(dirname "$0")/../.."
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
results() { # results FILE MEASURE=NS...
	file=$1
	shift
	printf '{\n  "rounds": 1,\n  "results": [' >"$file"
	separator=
	for row in "$@"; do
		printf '%s\n    {"driver": "null", "device": "none", "measure": "%s", "variant": "limited", "ns": %s, "ratio": null, "added_ns": null, "bar": null}' \
			"$separator" "${row%=*}" "${row#*=}" >>"$file"
		separator=,
	done
	printf '\n  ]\n}\n' >>"$file"
}
fail() {
	echo "$1"
	cat "$at/said"
	exit 1
}
compare() { awk -f tests/bench/compare.awk "$at"/base-*.json "$at"/now-*.json >"$at/said"; }
line() { grep -Eq "null +$1 +limited $2" "$at/said" || fail "no line: $1 $2"; }
results "$at/base-1.json" same=100 worse=100 better=100 wide=50 gone=1
results "$at/base-2.json" same=102 worse=104 better=96 wide=100 gone=1
results "$at/base-3.json" same=98 worse=102 better=100 wide=150 gone=1
results "$at/now-1.json" same=101 worse=105 better=90 wide=140 new=1
results "$at/now-2.json" same=97 worse=107 better=95 wide=149 new=1
results "$at/now-3.json" same=120 worse=90 better=110 wide=160 new=1
! compare || fail "a slower row was let pass"
line same ' +100.0 +101.0 +1.010  0.980 to 1.020 *$'
line worse ' +102.0 +105.0 +1.029  0.980 to 1.020  slower$'
line better ' +100.0 +95.0 +0.950  0.960 to 1.000  faster$'
line wide ' +100.0 +149.0 +1.490  0.500 to 1.500 *$'
for side in base now; do
	grep -q "in $side alone" "$at/said" || fail "rows of $side alone are lost"
done
grep -q '^4 rows compared: 1 slower than their spread, 1 faster$' "$at/said" || fail "the sum is wrong"
results "$at/now-3.json" same=100 worse=90 better=95 wide=100 new=1
results "$at/now-2.json" same=100 worse=103 better=95 wide=100 new=1
results "$at/now-1.json" same=100 worse=103 better=95 wide=100 new=1
compare || fail "a row within its spread was called slower"
for bad in "nowhere" "HEAD 0" "HEAD x"; do
	# shellcheck disable=SC2086 # words
	if tests/bench/compare $bad >"$at/said" 2>&1; then fail "accepted: $bad"; fi
	grep -q "^compare: '" "$at/said" || fail "no word on: $bad"
done
