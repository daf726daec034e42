#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_exclusive_kills.sh, for thirty minutes.
set -eu
: "${EXCLUSIVE_KILLS_SECONDS:=1800}"
export EXCLUSIVE_KILLS_SECONDS
exec tests/e2e/test_exclusive_kills.sh
