#!/bin/sh
# SPDX-License-Identifier: MIT
# How exactly PyTorch's trainings hold their shares, by steps against the same training without
# Spillway: alone at several shares, and two at once.
set -eu
. tests/gpu/needs.sh
. tests/gpu/pace.sh
need_gpu
need_pytorch

watched "$PYTHON" tests/gpu/pace_pytorch.py "$seconds"
cat "$TMPDIR/out"
full=$(rate steps "$TMPDIR/out")
for share in ${PACE_SHARES:-25 50 75 90} 100; do
	watched "$BUILD/spillway" run --quiet --name pytorch --share $share "$PYTHON" tests/gpu/pace_pytorch.py "$seconds"
	line "PyTorch" $share "$(rate steps "$TMPDIR/out")" "$full" "$utilised"
done

for job in 70 30; do
	"$BUILD/spillway" run --quiet --name "pytorch-$job" --share $job "$PYTHON" tests/gpu/pace_pytorch.py "$seconds" >"$TMPDIR/$job" &
	jobs="${jobs:-} $!"
done
# shellcheck disable=SC2086
for job in $jobs; do wait "$job" || fail "two at once: exit status $?"; done
for job in 70 30; do line "PyTorch, two at once" $job "$(rate steps "$TMPDIR/$job")" "$full" -; done
all_are_held
