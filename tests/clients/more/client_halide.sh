#!/bin/sh
# SPDX-License-Identifier: MIT
# Halide from PyPI, unmodified, compiles image pipelines to PTX, and judges.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
member "Halide" "$(version halide)" "blurs and sharpens twelve images"
program="$python $here/halide_blurs.py"
judge
