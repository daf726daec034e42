#!/bin/sh
# SPDX-License-Identifier: MIT
# A graph with a loop in it is launched again and again while the limit of its memory goes up and
# down. The loop's kernels find their memory on either tier.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_CONTEXT_MEMORY=1M
loops=$build/clients/samples/conditional

"$spillway" run --softgpu --quiet --name loops --memory 24MiB timeout $patience "$loops" "$scratch/enough" \
	>"$scratch/out" 2>&1 &
job=$!
limit=24 moves=0
until_true $patience counter_at_least loops graph_launches 6
while kill -0 $job 2>/dev/null && [ "$moves" -lt 6 ]; do
	limit=$((28 - limit)) # 4 and 24 MiB in turns; the program has 8
	"$spillway" set loops --memory ${limit}MiB --timeout 5 >/dev/null 2>&1 || true # what is left may wait
	moves=$(($(counter loops demotions) + $(counter loops promotions)))
done
touch "$scratch/enough"
wait $job || fail "exit status $?: $(cat "$scratch/out")"
launches=$(counter loops graph_launches)
has "the loops" "$(cat "$scratch/out")" "PASS $launches launches of a loop"
[ "$moves" -ge 6 ] || fail "only $moves moves"
