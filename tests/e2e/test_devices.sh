#!/bin/sh
# SPDX-License-Identifier: MIT
# Limits of one GPU among several, by ordinal, UUID and PCI bus id, with any CUDA_VISIBLE_DEVICES.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
export SOFTGPU_DEVICES=2
limited="total=16777216"

run() { "$spillway" run --softgpu --quiet "$@"; }
is_limited() { has "$1" "$2" "$limited"; }
is_free() { case $2 in *"$limited"*) fail "$1: limited: $2" ;; *"ok bad=0"*) ;; *) fail "$1: $2" ;; esac; }

is_free "gpu 0 of a limit for gpu 1" "$(run --limit-gpu 1 --memory 16MiB "$allocate" --device 0)"
is_limited "gpu 1" "$(run --limit-gpu 1 --memory 16MiB "$allocate" --device 1)"
for api in async create pitch; do
	is_limited "gpu 1, $api" "$(run --limit-gpu 1 --memory 16MiB "$allocate" --device 1 --api $api)"
done
is_limited "every gpu" "$(run --memory 16MiB "$allocate" --device 1)"

# The second device by its names; alone visible it is ordinal 0.
json=$("$spillway" run --softgpu --quiet --name names "$allocate" --device 1 >/dev/null; "$spillway" stat names --json)
uuid=$(printf '%s' "$json" | grep -o '"uuid":"[^"]*"' | sed -n '2s/.*:"\(.*\)"/\1/p')
pci=$(printf '%s' "$json" | grep -o '"pci_bus_id":"[^"]*"' | sed -n '2s/.*:"\(.*\)"/\1/p')
[ -n "$uuid" ] && [ -n "$pci" ] || fail "stat does not name two devices: $json"
for name in "$uuid" "$pci" "${pci#*:}"; do
	is_limited "$name" "$(run --limit-gpu "$name" --memory 16MiB "$allocate" --device 1)"
	is_free "gpu 0 of $name" "$(run --limit-gpu "$name" --memory 16MiB "$allocate" --device 0)"
	is_limited "$name alone visible" "$(CUDA_VISIBLE_DEVICES=1 run --limit-gpu "$name" --memory 16MiB "$allocate")"
done
is_limited "ordinal 0 alone visible" "$(CUDA_VISIBLE_DEVICES=1 run --limit-gpu 0 --memory 16MiB "$allocate")"
is_limited "environment" "$(SPILLWAY_MEMORY_1=16MiB under_shim "$allocate" --device 1)"
is_free "environment" "$(SPILLWAY_MEMORY_1=16MiB under_shim "$allocate" --device 0)"
is_limited "HAMi's name" "$(CUDA_DEVICE_MEMORY_LIMIT=16m under_shim "$allocate")"
