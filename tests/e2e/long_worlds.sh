#!/bin/sh
# SPDX-License-Identifier: MIT
# Exclusive turns and lending with more jobs and more random worlds than every day.
set -eu
export FORM=long
"$BUILD/tests/unit/test_gang"
exec "$BUILD/tests/unit/test_lending"
