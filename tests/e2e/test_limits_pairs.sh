#!/bin/sh
# SPDX-License-Identifier: MIT
# Random pairs of jobs under a cgroup's limits of GPU memory, by the software GPU's imitation of MPS
# v3.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
python3 tests/e2e/limited_pairs.py "$build" "$scratch" 20 "${SEED:-$(date +%s)}"
