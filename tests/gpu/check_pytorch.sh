#!/bin/sh
# A PyTorch training under half its working set ends with the same weights, bit for bit, by each of PyTorch's ways to take
# memory: its own pool, expandable segments, the driver's pool.
set -eu
. tests/gpu/needs.sh
need_gpu
need_pytorch

for allocator in "" expandable_segments:True backend:cudaMallocAsync; do
	export PYTORCH_CUDA_ALLOC_CONF="$allocator"
	job=pytorch-${allocator%:*}
	alone=$("$PYTHON" tests/gpu/train_pytorch.py)
	echo "${allocator:-default}: $alone"
	limit=$(($(echo "$alone" | field working_set) / 2))
	with_all "$job-all" "$(echo "$alone" | field checksum)" "$PYTHON" tests/gpu/train_pytorch.py
	limited=$("$BUILD/spillway" run --name "$job" --memory $limit "$PYTHON" tests/gpu/train_pytorch.py)
	echo "${allocator:-default}, limited: $limited"
	same_within_limit "$job" $limit \
		"$(echo "$alone" | field checksum)" "$(echo "$limited" | field checksum)" "$for_good"
done
