#!/bin/sh
# SPDX-License-Identifier: MIT
# Python's multiprocessing with tinygrad, forked, spawned and by a fork server, under one limit.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh
. tests/clients/workers.sh

direct=$(client tests/clients/workers.py tinygrad direct 2>&1) || fail "alone: $direct"
judge_workers tinygrad "$direct" limited_client tinygrad 16MiB 100 tests/clients/workers.py tinygrad
