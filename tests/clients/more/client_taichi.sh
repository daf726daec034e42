#!/bin/sh
# SPDX-License-Identifier: MIT
# Taichi from PyPI, unmodified, compiles Python to PTX by its own LLVM, and judges.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
member "Taichi" "$(version taichi)" "moves waves over twelve fields"
program="$python $here/taichi_waves.py"
judge
