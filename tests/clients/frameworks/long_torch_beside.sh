#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch beside other allocators that release memory and make it again at the same addresses, under
# a limit: torch_memory_saver by its hook in PyTorch, preloaded after Spillway and before it, and
# vLLM's cumem. Each ends with the bytes of the run without Spillway.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/clients/frameworks/lib.sh
. tests/clients/frameworks/lib.sh
beside=$build/beside
tests/clients/frameworks/setup_beside "$beside" beside
[ ! -e "$beside.why" ] || skip "$(cat "$beside.why")"
export PYTHONPATH="$PYTHONPATH:$beside"
saver=$(echo "$beside"/torch_memory_saver_hook_mode_preload_cu13.*.so)
cumem=$(echo "$beside"/vllm/cumem_allocator.*.so)
program=$here/torch_beside.py

checksum() { field checksum "$1"; }
said=$(TMS_HOOK_MODE=torch directly python3 $program saver 2>&1) || fail "directly: $said"
direct=$(checksum "$said")
[ -n "$direct" ] || fail "directly: no checksum: $said"
# judged_beside NAME COMMAND...: as a job of 24 MiB, of which 48 MiB do not fit
judged_beside() {
	job=$1
	shift
	said=$(limited "$job" 24MiB "$@") || fail "$job: $said"
	same "$job: checksum" "$direct" "$(checksum "$said")"
	same "$job: refusals" 0 "$(counter "$job" refusals)"
	[ "$(counter "$job" host_peak)" -gt 0 ] || fail "$job has had nothing on the host: $said"
}
export TMS_HOOK_MODE=torch
judged_beside hook python3 $program saver
export TMS_HOOK_MODE=preload
# shellcheck disable=SC2016 # for the inner shell
judged_beside after sh -c 'LD_PRELOAD="$LD_PRELOAD:$0" exec python3 "$@"' "$saver" $program saver
# shellcheck disable=SC2016
judged_beside before sh -c 'LD_PRELOAD="$0:$LD_PRELOAD" exec python3 "$@"' "$saver" $program saver
judged_beside cumem python3 $program cumem "$cumem"
