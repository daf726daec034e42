#!/bin/sh
# SPDX-License-Identifier: MIT
# test_mixed.sh with more moves.
FORM=long exec tests/e2e/test_mixed.sh
