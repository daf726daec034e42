#!/bin/sh
# SPDX-License-Identifier: MIT
# Five minutes of random programs, or CHAOS_SECONDS.
set -eu
: "${CHAOS_SECONDS:=300}"
export CHAOS_SECONDS
exec tests/chaos/test_chaos.sh
