#!/bin/sh
# SPDX-License-Identifier: MIT
# On a machine without a driver cuInit says so, with one line, and nothing else happens.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

if [ -n "$(ldconfig -p 2>/dev/null | grep 'libcuda\.so\.1')" ] || ls /usr/lib/*/libcuda.so.1 >/dev/null 2>&1; then
	echo "this machine has a driver"
	exit 77
fi
out=$(LD_PRELOAD=$shim "$build/tests/e2e/entry" --init 2>"$scratch/err")
same "answers" "cuInit 100 cuDriverGetVersion 0 0 cuDeviceGetCount 3" "$out"
same "lines on stderr" 1 "$(wc -l <"$scratch/err")"
has "the line" "$(cat "$scratch/err")" "no CUDA driver (libcuda.so.1) on this machine"
[ -z "$(ls "$SPILLWAY_STATE_DIR"/*.segment 2>/dev/null)" ] || fail "a segment was made"

# A driver that is named but is not there is said, with what was expected.
LD_PRELOAD=$shim SPILLWAY_DRIVER=/nonexistent "$build/tests/e2e/entry" --init >/dev/null 2>"$scratch/err"
has "named driver" "$(cat "$scratch/err")" \
	"SPILLWAY_DRIVER = /nonexistent: expected the absolute path of a CUDA driver library"
# Programs that never ask for CUDA are left in peace.
same "no output" "" "$(LD_PRELOAD=$shim /bin/true 2>&1)"
