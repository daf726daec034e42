#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_destroys.sh, for two minutes.
set -eu
: "${DESTROYS_MS:=60000}"
export DESTROYS_MS
exec tests/e2e/test_destroys.sh
