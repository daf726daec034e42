#!/bin/sh
# SPDX-License-Identifier: MIT
# IREE from PyPI, unmodified, compiles linear algebra to PTX for its CUDA device, and judges.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
member "IREE" "$(version iree-base-compiler)" "multiplies matrices and adds them up"
program="$python $here/iree_multiplies.py"
judge
