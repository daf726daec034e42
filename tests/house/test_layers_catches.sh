#!/bin/sh
# SPDX-License-Identifier: MIT
# The test of layers names the faults in a house of five files, and passes once they are mended.
set -eu
cd "$(dirname "$0")/../.."
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
build() {
	rm -rf "$at/build"
	for file in "$at"/core/*/*.c; do
		object=$at/build/${file#"$at"/}
		mkdir -p "$(dirname "$object")"
		${CC:-cc} -I"$at" -c -o "${object%.c}.o" "$file"
	done
}
check() { tests/house/test_layers.py "$at" "$at/build" >"$at/said"; }
says() {
	grep -qF "$1" "$at/said" || {
		echo "it does not say: $1"
		cat "$at/said"
		exit 1
	}
}
mkdir -p "$at/core/low" "$at/core/high" "$at/core/lost"
printf 'core/low\ncore/high core/low\n' >"$at/core/rooms"
echo 'int high(void);' >"$at/core/high/high.h"
echo '#include "core/high/high.h"' >"$at/core/low/by_include.c"
echo 'int high(void); int low(void) { return high(); }' >"$at/core/low/by_prototype.c"
echo 'int low(void), other(void); int high(void) { return other(); } int third(void) { return low(); }' >"$at/core/high/high.c"
echo 'int third(void); int other(void) { return third(); }' >"$at/core/high/other.c"
echo 'int lost;' >"$at/core/lost/lost.c"
build
! check || says "anything at all"
says 'core/lost/lost.c: its folder is no room of core/rooms'
says 'core/low/by_include.c includes core/high/high.h: core/low may not use core/high'
says 'core/low/by_prototype.c uses high of core/high/high.c: core/low may not use core/high'
says '3 files form a circle by symbols: core/high/high.c core/high/other.c core/low/by_prototype.c'
says '    core/high/other.c uses third of core/high/high.c'
rm -r "$at/core/lost"
echo 'int low(void) { return 0; }' >"$at/core/low/by_prototype.c"
echo '#include "core/low/b.h"' >"$at/core/low/a.h"
cp "$at/core/low/a.h" "$at/core/low/by_include.c"
echo 'int b(void);' >"$at/core/low/b.h"
printf '#include "core/low/a.h"\nint b(void) { return 0; }\n' >"$at/core/low/b.c"
echo 'int other(void) { return 0; }' >"$at/core/high/other.c"
build
! check || says "anything at all"
says '2 files form a circle by includes: core/low/a core/low/b'
echo 'int b(void) { return 0; }' >"$at/core/low/b.c"
build
check || says "nothing"
says ': 0 lines of what is wrong'
# No table lets the kernel use a module, and one room of a folder may be left out.
mkdir -p "$at/core/modules/part"
echo 'int part(void); int part(void) { return 0; }' >"$at/core/modules/part/part.c"
echo 'int part(void); int low(void) { return part(); }' >"$at/core/low/by_prototype.c"
printf 'core/low core/ !core/high\ncore/high core/low\ncore/modules/part\n' >"$at/core/rooms"
build
mkdir -p "$at/build/core/modules/part"
${CC:-cc} -c -o "$at/build/core/modules/part/part.o" "$at/core/modules/part/part.c"
! check || says "anything at all"
says 'core/rooms: core/low is of the kernel and may not use core/modules/part'
printf 'core/low core/ !core/high !core/modules/\ncore/high core/low\ncore/modules/part\n' >"$at/core/rooms"
! check || says "anything at all"
says 'core/low/by_prototype.c uses part of core/modules/part/part.c: core/low may not use core/modules/part'
