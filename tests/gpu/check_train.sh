#!/bin/sh
# SPDX-License-Identifier: MIT
# train_mlp on the real driver. It runs alone, with the whole GPU as its limit, and under half its
# working set and 60 % of the GPU. The weights are the same in the end. It is scaled up, so that a
# context's own memory fits the limit.
set -eu
. tests/gpu/needs.sh
need_gpu
set -- "$BUILD/clients/train_mlp" --quiet --scale "$(by_gpu 64 1)"

alone=$("$@")
echo "$alone"
with_all gpu-train-all "$(echo "$alone" | field checksum)" "$@"
limit=$(($(echo "$alone" | field working_set) / 2))
limited=$("$BUILD/spillway" run --name gpu-train --memory ${limit}B --share 60 "$@")
echo "$limited"
same_within_limit gpu-train $limit \
	"$(echo "$alone" | field checksum)" "$(echo "$limited" | field checksum)" "$for_good"
idle=$(counter gpu-train idle_ns)
[ "${idle:-0}" -gt 0 ] || fail "no idle time was inserted at a share of 60 %"
