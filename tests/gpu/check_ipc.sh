#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory that moves is given to another process by cuIpcGetMemHandle. It is given as it is, after it
# was demoted, much of it with few descriptors, and by a process that dies.
set -eu
. tests/gpu/needs.sh
need_gpu
contexts=$((2 * $(context_bytes)))

# a_case NAME MIB
a_case() {
	"$BUILD/spillway" run --quiet --name "ipc-$1" --memory $((contexts + ($2 << 20)))B "$BUILD/tests/e2e/ipc" "$1" \
		>"$TMPDIR/out" 2>&1 || fail "$1: $(cat "$TMPDIR/out")"
	echo "$1"
}

for name in plain freed threads captured with_its_context killed; do a_case $name 512; done
a_case demoted 64
(
	# shellcheck disable=SC3045 # dash has it
	ulimit -Sn 256
	a_case much 2048
)
