#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_whole_kills.sh, for thirty minutes.
set -eu
: "${WHOLE_KILLS_SECONDS:=1800}"
export WHOLE_KILLS_SECONDS
exec tests/e2e/test_whole_kills.sh
