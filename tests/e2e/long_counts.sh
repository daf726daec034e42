#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_counts.sh, with 600 processes.
set -eu
COUNT_PROCESSES=600
export COUNT_PROCESSES
exec tests/e2e/test_counts.sh
