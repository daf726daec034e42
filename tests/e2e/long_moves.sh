#!/bin/sh
# SPDX-License-Identifier: MIT
# test_moves.sh with a thousand chunks.
FORM=long exec tests/e2e/test_moves.sh
