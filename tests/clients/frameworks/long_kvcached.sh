#!/bin/sh
# SPDX-License-Identifier: MIT
# kvcached's memory of a KV cache beside PyTorch's own, as a job of 24 MiB: 60 MiB and more do
# not fit. They are on the host, and the program ends with the bytes of the run without
# Spillway. kvcached is not preloaded. It has no wheel and is compiled here.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/clients/frameworks/lib.sh
. tests/clients/frameworks/lib.sh
kvcached=$build/kvcached
tests/clients/frameworks/setup_kvcached "$kvcached" "$softgpu" "$(sed -n 's/^CUDA_INCLUDE := //p' "$build/cuda.mk")"
[ ! -e "$kvcached.why" ] || skip "$(cat "$kvcached.why")"
export PYTHONPATH="$PYTHONPATH:$kvcached"

said=$(directly python3 $here/kvcached_maps.py 2>&1) || fail "directly: $said"
direct=$(field checksum "$said")
[ -n "$direct" ] || fail "directly: no checksum: $said"
said=$(limited kv 24MiB python3 $here/kvcached_maps.py) || fail "limited: $said"
same "checksum" "$direct" "$(field checksum "$said")"
same "refusals" 0 "$(counter kv refusals)"
[ "$(counter kv host_peak)" -ge $((60 << 20)) ] || fail "hardly anything was on the host: $said"
[ $(($(counter kv device_peak) - $(counter kv driver_peak))) -le $((24 << 20)) ] || fail "above the limit: $said"
