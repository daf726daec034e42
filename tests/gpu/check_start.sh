#!/bin/sh
# SPDX-License-Identifier: MIT
# How long a CUDA program takes to start and end, natively, unlimited and under a limit: the middle
# of nine each.
set -eu
. tests/gpu/needs.sh
need_gpu

# middle COMMAND...: milliseconds
middle() {
	: >"$TMPDIR/times"
	for _ in 1 2 3 4 5 6 7 8 9; do
		began=$(date +%s%N)
		"$@" >"$TMPDIR/out" 2>&1 || fail "$*: exit status $?: $(cat "$TMPDIR/out")"
		echo $((($(date +%s%N) - began) / 10000)) >>"$TMPDIR/times"
	done
	sort -n "$TMPDIR/times" | awk 'NR == 5 { printf "%.2f", $1 / 100 }'
}

set -- "$BUILD/clients/gpu_busy" --seconds 0 --loops 1
native=$(middle "$@")
unlimited=$(middle "$BUILD/spillway" run --quiet --name start "$@")
limited=$(middle "$BUILD/spillway" run --quiet --name start --memory 100% "$@")
echo "ms: natively $native, unlimited $unlimited, under a limit $limited"
# Of the software GPU it is not judged: there the time depends on what else the machine does.
not_long() { [ "$GPU" = soft ] || awk -v native="$native" -v limited="$limited" 'BEGIN { exit limited > 1.5 * native + 100 }'; }
bar "start of a CUDA program under a limit" "1.5 times $native ms and 100 at most" "$limited ms" not_long ||
	fail "it starts too slowly"
