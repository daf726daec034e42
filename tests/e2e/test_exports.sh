#!/bin/sh
# The shim exports exactly the entry points, dlopen, dlmopen and NVML's memory queries, and needs glibc's own libraries alone.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

sed -n 's/^\(FUNCTION\|OBJECT\)(\([A-Za-z0-9_]*\),.*/\2/p' shim/entry_points.h >"$scratch/expected"
printf '%s\n' dlopen dlmopen nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo_v2 >>"$scratch/expected"
LC_ALL=C sort -o "$scratch/expected" "$scratch/expected"
nm -D --defined-only "$build/lib/libspillway.so" | awk '{ print $NF }' | LC_ALL=C sort >"$scratch/exported"
diff "$scratch/expected" "$scratch/exported" || fail "exports differ from shim/entry_points.h (< expected, > exported)"
same "entry points" 704 "$(($(wc -l <"$scratch/expected") - 4))"

if [ -z "${SANITIZER:-}" ]; then
	needed=$(readelf -d "$build/lib/libspillway.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	for library in $needed; do
		case $library in
		libc.so.* | libdl.so.* | libpthread.so.* | ld-linux*.so.*) ;;
		*) fail "the shim needs $library, which is not glibc's" ;;
		esac
	done
fi
# Loads on glibc 2.28 and later: no import is newer.
if [ -z "${SANITIZER:-}" ]; then
	newer=$(nm -D "$build/lib/libspillway.so" | sed -n 's/.* \([A-Za-z0-9_]*@GLIBC_[0-9.]*\)$/\1/p' |
		awk -F'GLIBC_2.' '{ split($2, v, "."); if (v[1] + 0 > 28) print }')
	[ -z "$newer" ] || fail "imports newer than GLIBC_2.28; see core/base/glibc.h: $newer"
fi
# Each process that is started has its loader write what is no distance but an address: one for each entry point, and
# little else.
if [ -z "${SANITIZER:-}" ]; then
	addresses=$(readelf -rW "$build/lib/libspillway.so" | grep -c '_RELATIVE')
	[ "$addresses" -lt 1200 ] || fail "$addresses addresses for the loader to write"
	# Nothing of the compiler's is run at the beginning, nor at the end; what it would do is for libraries that go.
	dynamic=$(readelf -dW "$build/lib/libspillway.so")
	case $dynamic in *"(INIT"*) fail "the loader has something to run: $dynamic" ;; esac
	has "it stays" "$dynamic" "NODELETE"
fi
has "SONAME of the shim" "$(readelf -d "$build/lib/libspillway.so")" "soname: [libcuda.so.1]"
alias=$(readelf -d "$build/lib/libspillway-alias.so")
has "SONAME of the alias" "$alias" "soname: [libcuda.so]"
has "NEEDED of the alias" "$alias" "Shared library: [libcuda.so.1]"
has "RUNPATH of the alias" "$alias" "[\$ORIGIN]"
