#!/bin/sh
# As test_counts.sh, with 512 processes.
set -eu
COUNT_PROCESSES=512
export COUNT_PROCESSES
exec tests/e2e/test_counts.sh
