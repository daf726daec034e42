#!/bin/sh
# SPDX-License-Identifier: MIT
# Python's multiprocessing with JAX from PyPI, forked, spawned and by a fork server, within a limit.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
. tests/clients/workers.sh
[ -e "$frameworks/packages/jax" ] || skip "no JAX: make frameworks"
# What is compiled once serves all runs.
export JAX_COMPILATION_CACHE_DIR="$scratch/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1 SOFTGPU_MEMORY=1536M

direct=$(directly python3 tests/clients/workers.py jax direct 2>&1) || fail "alone: $direct"
judge_workers jax "$direct" "$spillway" run --softgpu --name jax --memory 16MiB \
	--host-memory 1520MiB python3 tests/clients/workers.py jax
