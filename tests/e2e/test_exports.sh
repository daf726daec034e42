#!/bin/sh
# SPDX-License-Identifier: MIT
# The shim exports exactly the entry points, dlopen, dlmopen, NVML's memory queries and where the
# companion library's functions go on. It needs glibc's own libraries alone. Each installed object
# loads on glibc 2.28.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

sed -n 's/^\(FUNCTION\|OBJECT\)(\([A-Za-z0-9_]*\),.*/\2/p' shim/entry_points.h >"$scratch/expected"
printf '%s\n' dlopen dlmopen nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo_v2 spillway_unlisted >>"$scratch/expected"
LC_ALL=C sort -o "$scratch/expected" "$scratch/expected"
for object in "$build"/lib/libspillway.so "$build"/lib/libspillway-2.34.so "$build"/lib/libvgpu.so; do
	[ -e "$object" ] || continue # where this machine's glibc is older, or the module is missing
	nm -D --defined-only "$object" | awk '{ print $NF }' | LC_ALL=C sort >"$scratch/exported"
	diff "$scratch/expected" "$scratch/exported" || fail "$object: exports differ from shim/entry_points.h (< expected, > exported)"
done
same "entry points" 755 "$(($(wc -l <"$scratch/expected") - 5))"

# loads_on_2_28 OBJECT: none of its imports is newer than glibc 2.28
loads_on_2_28() {
	newer=$(nm -D "$1" | sed -n 's/.* \([A-Za-z0-9_]*@GLIBC_[0-9.]*\)$/\1/p' |
		awk -F'GLIBC_2.' '{ split($2, v, "."); if (v[1] + 0 > 28) print }')
	[ -z "$newer" ] || fail "$1 imports newer than GLIBC_2.28; see core/base/glibc.h: $newer"
}

# examine OBJECT LIBRARY...: the libraries it needs, and the loader's; what its loading costs each
# process that is started
examine() {
	object=$1
	shift
	dynamic=$(readelf -dW "$object")
	has "SONAME of $object" "$dynamic" "soname: [libcuda.so.1]"
	[ -z "${SANITIZER:-}" ] || return 0
	same "$object needs" "$*" "$(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux' | sort | tr '\n' ' ' | sed 's/ $//')"
	loads_on_2_28 "$object"
	# What is no distance but an address the loader writes: one for each entry point, and little
	# else.
	addresses=$(readelf -rW "$object" | grep -c '_RELATIVE')
	[ "$addresses" -lt 1200 ] || fail "$object: $addresses addresses for the loader to write"
	# It looks functions of glibc up when they are called, but for a few whose address is used.
	looked_up=$(readelf -rW "$object" | grep -c '_GLOB_DAT')
	[ "$looked_up" -lt 12 ] || fail "$object: $looked_up symbols for the loader to look up"
	case $dynamic in *NOW*) fail "$object: all symbols are looked up at the start: $dynamic" ;; esac
	# Nothing of the compiler's is run at the beginning, nor at the end; what it would do is for
	# libraries that go. What is run is one function of shim/order.c.
	case $dynamic in *"(INIT)"*) fail "the compiler has something to run: $dynamic" ;; esac
	same "$object: bytes of functions that the loader runs" 8 "$(echo "$dynamic" | sed -n 's/.*(INIT_ARRAYSZ) *\([0-9]*\) .*/\1/p')"
	has "it stays" "$dynamic" "NODELETE"
}
examine "$build/lib/libspillway.so" libc.so.6 libdl.so.2 libpthread.so.0
! built_in vgpu || examine "$build/lib/libvgpu.so" libc.so.6 libdl.so.2 libpthread.so.0
[ ! -e "$build/lib/libspillway-2.34.so" ] || examine "$build/lib/libspillway-2.34.so" libc.so.6
if [ -z "${SANITIZER:-}" ]; then
	installed=$scratch/installed
	make --no-print-directory -s run-install BUILD="$build" PREFIX=/usr DESTDIR="$installed" >/dev/null
	count=0
	for object in $(find "$installed" -type f | sort); do
		[ "$(head -c 4 "$object" | od -An -tx1)" = ' 7f 45 4c 46' ] || continue
		loads_on_2_28 "$object"
		count=$((count + 1))
	done
	[ $count -ge 8 ] || fail "only $count objects are installed"
fi
alias=$(readelf -d "$build/lib/libspillway-alias.so")
has "SONAME of the alias" "$alias" "soname: [libcuda.so]"
has "NEEDED of the alias" "$alias" "Shared library: [libcuda.so.1]"
has "RUNPATH of the alias" "$alias" "[\$ORIGIN]"
