#!/bin/sh
# SPDX-License-Identifier: MIT
# The steps of a PyTorch training are one captured graph. It has the same loss at each step while
# its limit moves at random, by PyTorch's own pool and by expandable segments.
set -eu
. tests/gpu/needs.sh
need_gpu
need_pytorch
context=$(context_bytes)
ini=$TMPDIR/graphs.ini

for allocator in "" expandable_segments:True; do
	export PYTORCH_CUDA_ALLOC_CONF="$allocator"
	job=graphs-${allocator%:*}
	"$PYTHON" tests/gpu/train_pytorch_graphs.py >"$TMPDIR/alone"
	working_set=$(field working_set <"$TMPDIR/alone")
	limit_file "$ini" $((context + working_set))
	disturb "$ini" "$context" "$working_set"
	"$BUILD/spillway" run --name "$job" --config "$ini" "$PYTHON" tests/gpu/train_pytorch_graphs.py >"$TMPDIR/limited"
	calm
	grep loss "$TMPDIR/alone" >"$TMPDIR/losses-alone"
	grep loss "$TMPDIR/limited" >"$TMPDIR/losses-limited"
	[ "$(cat "$TMPDIR/losses-alone")" = "$(cat "$TMPDIR/losses-limited")" ] || {
		cat "$TMPDIR/losses-alone" "$TMPDIR/losses-limited"
		fail "${allocator:-default}: the losses differ; those of the run alone came first"
	}
	moves=$(($(counter "$job" demotions) + $(counter "$job" promotions)))
	echo "${allocator:-default}: $(tail -n 1 "$TMPDIR/limited"), $moves moves"
	# Of expandable segments, which are the program's own mappings, fewer may be movable.
	[ -n "$allocator" ] || [ "$moves" -gt 0 ] || fail "nothing moved"
done
