#!/bin/sh
# SPDX-License-Identifier: MIT
# Under MPS, where kernels of several processes run together: a job's memory moves beside the
# kernels of another client that never pauses, and the job ends with the same bits.
set -eu
export SOFTGPU_MODE=mps
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/moving.sh
. tests/e2e/moving.sh

on_softgpu "$build/clients/gpu_busy" --seconds 600 >"$scratch/busy" 2>&1 &
of_mode one 20
[ $total_moves -ge 20 ] || fail "only $total_moves chunks were moved"
