#!/bin/sh
# SPDX-License-Identifier: MIT
# As test_jax.sh, the transformer alone under a hundred random schedules.
set -eu
WAYS=fp32 SCHEDULES=${SCHEDULES:-100} exec tests/clients/frameworks/test_jax.sh
