#!/bin/sh
# A PyTorch training under half its working set ends with the same weights, bit for bit.
set -eu
. tests/gpu/needs.sh
need_gpu
: "${PYTHON:=python3}"
"$PYTHON" -c 'import numpy, torch; assert torch.cuda.is_available()' 2>"$TMPDIR/why" ||
	skip "no PyTorch with CUDA for $PYTHON: $(tail -n 1 "$TMPDIR/why")"

alone=$("$PYTHON" tests/gpu/train_pytorch.py)
echo "$alone"
limit=$(($(echo "$alone" | field working_set) / 2))
limited=$("$BUILD/spillway" run --name pytorch --memory $limit "$PYTHON" tests/gpu/train_pytorch.py)
echo "$limited"
same_within_limit pytorch $limit \
	"$(echo "$alone" | field checksum)" "$(echo "$limited" | field checksum)"
