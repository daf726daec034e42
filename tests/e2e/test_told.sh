#!/bin/sh
# SPDX-License-Identifier: MIT
# The driver's answers about memory, status by status and value by value, are the same under
# Spillway, for memory on the device and for spilled memory; NULL is refused or accepted where the
# driver does.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
told=$build/tests/e2e/told

# compare WHAT: $scratch/out with what the driver says
compare() {
	diff "$scratch/alone" "$scratch/out" >"$scratch/diff" ||
		fail "$1: < driver, > under the shim:
$(head -n 60 "$scratch/diff")"
}

on_softgpu "$told" >"$scratch/alone"
[ "$(wc -l <"$scratch/alone")" -gt 300 ] || fail "only $(wc -l <"$scratch/alone") answers"
# Of memory that cannot move there are no handles for other processes, and a program that asks is
# told so. Without the module that gives memory there are none at all.
no_handles() { sed -i '/NULL/! { /IS_LEGACY_CUDA_IPC_CAPABLE/ s/^\(plain.*\) 1$/\1 0/; }' "$scratch/alone"; }
built_in ipc || no_handles
"$spillway" run --softgpu --quiet --name device "$told" >"$scratch/out"
compare "on the device"
printf '[gpu]\nmemory = 1MiB\nspill = vmm\n' >"$scratch/vmm.ini"
"$spillway" run --softgpu --quiet --name vmm --config "$scratch/vmm.ini" "$told" >"$scratch/out"
case $("$spillway" stat vmm --json) in *'"spills":0'*'"processes"'*) fail "nothing spilled" ;; esac
compare "spilled, vmm"
# The other providers have no physical memory of the program's own.
on_softgpu "$told" no-vmm >"$scratch/alone"
no_handles
for spill in managed pinned; do
	printf '[gpu]\nmemory = 1MiB\nspill = %s\n' $spill >"$scratch/$spill.ini"
	"$spillway" run --softgpu --quiet --name $spill --config "$scratch/$spill.ini" "$told" no-vmm >"$scratch/out"
	compare "spilled, $spill"
done
