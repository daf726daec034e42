#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_tensorflow.sh, under thirty random schedules.
set -eu
SCHEDULES=${SCHEDULES:-30} exec tests/clients/frameworks/test_tensorflow.sh
