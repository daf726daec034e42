#!/bin/sh
# SPDX-License-Identifier: MIT
# A thousand random pairs as test_limits_pairs.sh has them.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
python3 tests/e2e/limited_pairs.py "$build" "$scratch" 1000 "${SEED:-$(date +%s)}"
