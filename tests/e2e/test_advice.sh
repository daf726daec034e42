#!/bin/sh
# SPDX-License-Identifier: MIT
# A program's advice for managed memory reads back as without Spillway, although the limit holds
# memory back. Random advice, prefetches, batches and queries are compared answer by answer,
# directly and under limits. A batch brings no more to a device than the limit.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
advise=$build/tests/e2e/advise
export SOFTGPU_DEVICES=2 SOFTGPU_MEMORY=256M

for seed in 1 2 3 4; do
	on_softgpu "$advise" $seed 1500 >"$scratch/direct" 2>"$scratch/most" || fail "seed $seed: directly: exit status $?"
	[ "$(grep -c '^ask' "$scratch/direct")" -gt 200 ] || fail "seed $seed: too few questions"
	for limit in 3MiB 9MiB 17MiB 64MiB; do
		"$spillway" run --softgpu --quiet --name "advice-$seed-$limit" --memory "$limit" \
			"$advise" $seed 1500 >"$scratch/limited" 2>"$scratch/most" || fail "seed $seed, $limit: exit status $?"
		diff "$scratch/direct" "$scratch/limited" >"$scratch/diff" ||
			fail "seed $seed, limit $limit: other answers (>): $(head -n 12 "$scratch/diff")"
		[ "$limit" = 64MiB ] || [ "$(counter "advice-$seed-$limit" device_peak)" -le $((${limit%MiB} << 20)) ] ||
			fail "seed $seed, $limit: above the limit"
		[ "$(cat "$scratch/most")" -le $((${limit%MiB} << 20)) ] ||
			fail "seed $seed, $limit: $(cat "$scratch/most") bytes were on a device"
	done
done
