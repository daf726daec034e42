#!/bin/sh
# SPDX-License-Identifier: MIT
# A PyTorch training under half its working set ends with the same weights, bit for bit. It takes
# memory in each of PyTorch's ways: its own pool, expandable segments, the driver's pool. In another
# training the steps are a CUDA graph.
set -eu
. tests/gpu/needs.sh
need_gpu
need_pytorch
version=$("$PYTHON" -c 'import torch; print(torch.__version__)')
framework pytorch "$version" failed

for way in default expandable_segments:True backend:cudaMallocAsync graphs; do
	case $way in
	*:*) PYTORCH_CUDA_ALLOC_CONF=$way ;;
	*) PYTORCH_CUDA_ALLOC_CONF= ;;
	esac
	export PYTORCH_CUDA_ALLOC_CONF
	if [ $way = graphs ]; then program=tests/gpu/train_pytorch_graphs.py; else program=tests/gpu/train_pytorch.py; fi
	job=pytorch-${way%:*}
	alone=$("$PYTHON" $program | tail -n 1)
	echo "$way: $alone"
	with_all "$job-all" "$(echo "$alone" | field checksum)" "$PYTHON" $program
	limit=$(($(echo "$alone" | field working_set) / 2))
	limited=$("$BUILD/spillway" run --name "$job" --memory ${limit}B "$PYTHON" $program | tail -n 1)
	echo "$way, limited: $limited"
	same_within_limit "$job" $limit \
		"$(echo "$alone" | field checksum)" "$(echo "$limited" | field checksum)" "$for_good"
done
framework pytorch "$version" ok
