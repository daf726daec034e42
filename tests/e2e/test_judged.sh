#!/bin/sh
# SPDX-License-Identifier: MIT
# The driver's decisions are those without Spillway, about absurd sizes, bounded pools and frees of
# the wrong kind. Such calls leave no trace in the job's figures. Spilled memory is freed when no
# device uses it any more.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
judged=$build/tests/e2e/judged
export SOFTGPU_DEVICES=2 SOFTGPU_QUIET=1

for what in sizes peer; do
	on_softgpu "$judged" $what >"$scratch/plain" || fail "$what: $(cat "$scratch/plain")"
	has "$what" "$(cat "$scratch/plain")" "done"
	for spill in auto vmm managed pinned; do
		SPILLWAY_SPILL=$spill LD_LIBRARY_PATH=$softgpu "$spillway" run --quiet --name "$what-$spill" --memory 20MiB \
			"$judged" $what >"$scratch/limited" || fail "$what, $spill: $(cat "$scratch/limited")"
		diff "$scratch/plain" "$scratch/limited" || fail "$what, limited, $spill: differs from without us"
	done
	LD_LIBRARY_PATH=$softgpu "$spillway" run --quiet --name "$what-free" "$judged" $what >"$scratch/free" ||
		fail "$what, without a limit: $(cat "$scratch/free")"
	diff "$scratch/plain" "$scratch/free" || fail "$what, without a limit: differs from without us"
done
peak=$("$spillway" stat --format csv,noheader,nounits sizes-free | head -n 1)
case $peak in *35184372088832* | *18446744*) fail "a refused size counts as the job's peak: $peak" ;; esac
