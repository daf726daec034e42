#!/bin/sh
# SPDX-License-Identifier: MIT
# Two engines of vLLM on one GPU, as check_engines.sh has two engines of ours: what they keep of a
# GPU of their own, without shares and with equal weights. Each takes 30 % of the memory.
set -eu
. tests/gpu/needs.sh
need_gpu
need_pytorch
"$PYTHON" -c 'import vllm' 2>"$TMPDIR/why" || skip "no vLLM for $PYTHON: $(tail -n 1 "$TMPDIR/why")"
ENGINE="$PYTHON tests/gpu/engine_vllm.py" ENGINE_NAME="vLLM engines" ENGINE_REQUESTS=${ENGINE_REQUESTS:-8} \
	exec tests/gpu/check_engines.sh
