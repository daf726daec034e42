#!/bin/sh
# SPDX-License-Identifier: MIT
# test_moves_graphs.sh with more moves.
FORM=long exec tests/e2e/test_moves_graphs.sh
