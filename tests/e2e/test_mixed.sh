#!/bin/sh
# SPDX-License-Identifier: MIT
# Where the driver refuses copies over memory on both tiers, or the file says mixed = whole, no
# allocation is ever on both. A program that copies all the time while its limit moves meets no
# refusal. Elsewhere allocations are mixed.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
restless='' runner=''
size=64
if [ "${FORM:-}" = long ]; then promotions=30; else promotions=10; fi
moves=$build/tests/e2e/moves

moved() {
	[ "$(counter "$1" promotions)" -ge "$2" ] || ! kill -0 "$runner" 2>/dev/null
}

# run NAME LINE: the program, while its limit moves
run() {
	ini=$scratch/$1.ini
	limit_file "$ini" $((size * mib)) "demote_deadline = 1ms
$2"
	SOFTGPU_KERNEL_TIME_US=1000 "$spillway" run --softgpu --quiet --name "$1" --config "$ini" "$moves" --mode one --mib $size \
		--until "$scratch/$1.stop" >"$scratch/$1" 2>"$scratch/$1.errors" &
	runner=$!
	"$build/tests/e2e/restless" "$ini" $((size * mib / 5)) $((size * mib * 6 / 5)) 50 "demote_deadline = 1ms
$2" &
	restless=$!
	until_true $patience moved "$1" $promotions || fail "$1: nothing moves"
	touch "$scratch/$1.stop"
	wait $runner || fail "$1: exit status $?: $(cat "$scratch/$1.errors")"
	kill $restless
	wait $restless 2>/dev/null || true
	restless=
	steps=$(sed -n 's/^steps=\([0-9,]*\) .*/\1/p' "$scratch/$1")
	same "$1" "$(on_softgpu "$moves" --mode one --mib $size --steps "$steps")" "$(cat "$scratch/$1")"
}

export SOFTGPU_NO_MIXED=1
probe_driver
run refused "mixed = auto"
run whole "mixed = whole"
unset SOFTGPU_NO_MIXED
probe_driver

# 10 MiB below a limit of 6: part of it is where the program wants it, at once.
parts() {
	limit_file "$scratch/parts.ini" $((6 * mib)) "$1"
	"$spillway" run --softgpu --quiet --name parts --config "$scratch/parts.ini" "$build/tests/e2e/allocate" --mib 10 \
		--count 1 >"$scratch/parts" || fail "$1: $(cat "$scratch/parts")"
	"$spillway" stat parts --json | sed 's/,"processes":.*//; s/.*"spilled_bytes":\([0-9]*\).*/\1/'
}
same "mixed" $((4 * mib)) "$(parts "mixed = auto")"
same "whole" $((10 * mib)) "$(parts "mixed = whole")"
