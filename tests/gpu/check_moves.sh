#!/bin/sh
# SPDX-License-Identifier: MIT
# The limit of programs moves at random every 50 ms between 20 % and 120 % of their working set.
# They end with the same bits as without Spillway. They use one stream and four, eight threads,
# graphs captured before a move, and captures under way. One is a training.
set -eu
. tests/gpu/needs.sh
need_gpu
context=$(context_bytes)
mib=$(by_gpu 2048 64)
seconds=${MOVES_SECONDS:-$(by_gpu 20 4)}
all_moves=0 all_queued=0

# book JOB: what it moved
book() {
	moves=$(($(counter "$1" demotions) + $(counter "$1" promotions)))
	queued=$(counter "$1" queued_moves)
	echo "$1: $moves moves, $queued of them with work in flight, longest copy window $(counter "$1" move_longest_ns) ns"
	[ "$moves" -gt 0 ] || fail "$1: nothing moved"
	all_moves=$((all_moves + moves)) all_queued=$((all_queued + queued))
}

for mode in one four threads graphs captures; do
	ini=$TMPDIR/$mode.ini
	limit_file "$ini" $((context + (mib << 20)))
	disturb "$ini" "$context" $((mib << 20))
	(sleep "$seconds" && touch "$TMPDIR/$mode.stop") &
	got=$("$BUILD/spillway" run --quiet --name "moves-$mode" --config "$ini" "$BUILD/tests/e2e/moves" --mode $mode \
		--mib "$mib" --until "$TMPDIR/$mode.stop") || fail "$mode: exit status $?"
	calm
	book "moves-$mode"
	steps=$(echo "$got" | sed -n 's/^steps=\([0-9,]*\) .*/\1/p')
	alone=$("$BUILD/tests/e2e/moves" --mode $mode --mib "$mib" --steps "$steps")
	[ "$got" = "$alone" ] || fail "$mode: '$alone' alone, '$got' with a limit that moves"
done

set -- "$BUILD/clients/train_mlp" --quiet --scale "$(by_gpu 64 1)" --epochs "$(by_gpu 200 24)"
alone=$("$@")
working_set=$(echo "$alone" | field working_set)
limit_file "$TMPDIR/train.ini" $((context + working_set))
disturb "$TMPDIR/train.ini" "$context" "$working_set"
got=$("$BUILD/spillway" run --quiet --name moves-train --config "$TMPDIR/train.ini" "$@") || fail "the training: exit status $?"
calm
book moves-train
[ "$(echo "$alone" | field checksum)" = "$(echo "$got" | field checksum)" ] || fail "'$alone' alone, '$got' with a limit that moves"
echo "$all_moves moves, $all_queued with work in flight"
if [ "$GPU" = real ]; then
	bar "moves under load, all bits right" "1000 at least" "$all_moves" [ $all_moves -ge 1000 ] || fail "only $all_moves chunks moved"
fi
