#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_tensorflow.sh, under thirty random schedules. Four steps have ten changes of the limit and
# more.
set -eu
STEPS=${STEPS:-4} SCHEDULES=${SCHEDULES:-30} exec tests/clients/frameworks/test_tensorflow.sh
