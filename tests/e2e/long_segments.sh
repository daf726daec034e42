#!/bin/sh
# SPDX-License-Identifier: MIT
# test_segments.sh with more moves.
FORM=long exec tests/e2e/test_segments.sh
