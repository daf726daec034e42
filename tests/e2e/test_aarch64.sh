#!/bin/sh
# SPDX-License-Identifier: MIT
# The shim for aarch64, cross-built, behaves there as here, under an emulator of that machine.
set -eu
# shellcheck source=tests/e2e/aarch64.sh
. tests/e2e/aarch64.sh

# The same names as here, and nothing from a glibc newer than 2.28.
names() { nm -D --defined-only "$1/lib/libspillway.so" | awk '{ print $NF }' | LC_ALL=C sort; }
names "$build" >"$scratch/here"
names "$cross" | diff "$scratch/here" - >&2 || fail "exports differ from those of this machine's (<)"
has "built for" "$(readelf -h "$cross/lib/libspillway.so")" "AArch64"
nm -D "$cross/lib/libspillway.so" | sed -n 's/.* \([A-Za-z0-9_]*@GLIBC_[0-9.]*\)$/\1/p' >"$scratch/imports"
[ -s "$scratch/imports" ] || fail "no imports were found"
newer=$(awk -F'GLIBC_2.' '{ split($2, v, "."); if (v[1] + 0 > 28) print }' "$scratch/imports")
same "imports newer than GLIBC_2.28 (core/base/glibc.h)" "" "$newer"

build_there
check_calls aarch64
check_names aarch64
check_unlisted aarch64
check_limit aarch64 limit-aarch64
elsewhere tests/e2e/test_entry_runpath.sh

# The trampolines have landing pads and say so: the emulated processor stops a jump to any other
# place (BTI).
there_build "$built/libtrampolines.so" tests/e2e/trampolines_alone.c "$cross/shim/trampolines.o" -I. -shared -fPIC \
	-fvisibility=hidden -nostartfiles -mbranch-protection=standard -Wl,-soname,libcuda.so.1 -ldl
has "note of the trampolines" "$(readelf -nW "$built/libtrampolines.so")" "BTI"
export ECHO_DRIVER="$built/echo/libcuda.so.1"
there_shim=$built/libtrampolines.so
check_calls "landing pads"
