#!/bin/sh
# The driver API through cuda-bindings (its own use of cuGetProcAddress): direct, and under the shim
# with a limit below what it holds; the results are the same.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh

alone=$(client $here/driver_api.py) || fail "alone: $alone"
echo "$alone"
limited=$(limited_client bindings 1MiB 80 $here/driver_api.py) || fail "limited: $limited"
echo "$limited"
same "checksum of the results" "$(field checksum "$alone")" "$(field checksum "$limited")"
at_least "spilled bytes" 1 "$(counter bindings spilled_bytes)"
same "device bytes held when it is over" 0 "$(device_bytes)"
