#!/bin/sh
# SPDX-License-Identifier: MIT
# test_move_faults.sh with more chunks, so that each call is used at more places.
FORM=long exec tests/e2e/test_move_faults.sh
