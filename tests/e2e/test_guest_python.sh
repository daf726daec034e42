#!/bin/sh
# SPDX-License-Identifier: MIT
# Data loaders as Python's multiprocessing makes them: forked, spawned, by a fork server.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
	echo "there is no $python"
	exit 77
fi
case $SANITIZER in
address | thread)
	echo "this sanitizer has to be in the program: Python is built without it"
	exit 77
	;;
esac
export SPILLWAY_TOOL="$spillway" SPILLWAY_JOB=loaders SOFTGPU_CONTEXT_MEMORY=1K PYTHONDONTWRITEBYTECODE=1
out=$(under_shim "$python" tests/e2e/life_loaders.py 2>&1) || fail "exit status $?: $out"
same "loaders" ok "$out"
