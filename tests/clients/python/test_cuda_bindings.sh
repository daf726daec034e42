#!/bin/sh
# SPDX-License-Identifier: MIT
# The driver API through cuda-bindings (its own use of cuGetProcAddress) judges: 4 MiB of buffers.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh

member "cuda-bindings" "$(version cuda-bindings)" "calls the driver through cuGetProcAddress"
program="$python_env/bin/python $here/driver_api.py" peak_kib=$((4 << 10)) few_launches=yes
judge
same "device bytes held when it is over" 0 "$(device_bytes)"
