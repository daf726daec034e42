#!/bin/sh
# SPDX-License-Identifier: MIT
# The stand-in ptxas hands PTX on with a NUL behind it, wherever its arguments stand.
set -eu
. tests/e2e/lib.sh
ptxas=$softgpu/cuda/bin/ptxas
printf '.version 7.0\n' >"$scratch/in.ptx"
printf '.version 7.0\n\0' >"$scratch/wanted"
"$ptxas" -v --gpu-name=sm_80 "$scratch/in.ptx" -o "$scratch/out"
cmp "$scratch/wanted" "$scratch/out"
"$ptxas" -o "$scratch/again" -arch=sm_80 "$scratch/in.ptx"
cmp "$scratch/wanted" "$scratch/again"
if "$ptxas" "$scratch/none" -o "$scratch/out" 2>/dev/null; then fail "no input, and it succeeds"; fi
has "the version" "$("$ptxas" --version)" "release 13.0, V13.0"
