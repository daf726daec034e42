#!/bin/sh
# SPDX-License-Identifier: MIT
# compute-sanitizer, where it is installed, finds nothing in a training with memory that moves.
set -eu
. tests/gpu/needs.sh
need_gpu
command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not on PATH"
[ "$GPU" = real ] || skip "compute-sanitizer needs a real GPU"
set -- "$BUILD/clients/train_mlp" --quiet --epochs 2
limit=$(($("$@" | field working_set) / 2 + $(context_bytes)))
"$BUILD/spillway" run --quiet --name sanitized --memory ${limit}B compute-sanitizer --error-exitcode 9 "$@" >"$TMPDIR/out" 2>&1 || {
	cat "$TMPDIR/out"
	fail "exit status $?"
}
tail -n 3 "$TMPDIR/out"
