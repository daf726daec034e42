#!/bin/sh
# SPDX-License-Identifier: MIT
# Captures stay valid while the job is paced; graphs are counted and paced; one that was invalidated
# stops nothing.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
capture=$build/tests/e2e/capture

has "alone" "$(SOFTGPU_KERNEL_TIME_US=200 on_softgpu "$capture")" "ok launches="
out=$(SOFTGPU_KERNEL_TIME_US=200 "$spillway" run --softgpu --quiet --name graphs --share 50 "$capture") ||
	fail "paced: exit status $?: $out"
has "paced" "$out" "ok launches="
same "graph launches" "$(field graph_launches "$out")" "$(counter graphs graph_launches)"
same "launches" "$(field launches "$out")" "$(counter graphs launches)"
[ "$(counter graphs idle_ns)" -gt 0 ] || fail "no idle time was inserted"

# After the invalidated capture 200 kernels of 5 ms at 50 % owe a second of idle time, less what the
# machine stood still.
out=$(SOFTGPU_KERNEL_TIME_US=5000 "$spillway" run --softgpu --quiet --name after --share 50 "$capture")
has "after an invalidated capture" "$out" "ok launches="
[ "$(counter after idle_ns)" -gt 300000000 ] || fail "idle_ns=$(counter after idle_ns): an invalidated capture stopped the pacing"
