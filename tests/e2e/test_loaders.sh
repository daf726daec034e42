#!/bin/sh
# SPDX-License-Identifier: MIT
# The shim built here works on the C libraries of Debian 11 (glibc 2.31) and Debian 13 (2.41) as on
# this machine's.
#
# The libraries are Debian's own, unpacked into the build folder; programs are compiled against the
# oldest, and run by each one's loader.
set -eu
# shellcheck source=tests/e2e/elsewhere.sh
. tests/e2e/elsewhere.sh
[ -z "${SANITIZER:-}" ] || skip "a sanitizer's library is made for this machine's C library"
arch=$(dpkg --print-architecture 2>/dev/null) || skip "no dpkg here to unpack other C libraries"
old=$build/debs/debian11
reason=$(tools/dev/fetch-deb bullseye main "$arch" "$old" libc6 libc6-dev linux-libc-dev 2>&1) || skip "$reason"

# -B: before the folders that a compiler has of its own
there_cc="${CC:-cc} --sysroot=$old -B$(echo "$old"/usr/lib/*-linux-gnu)"
there_shim=$shim
build_there
cat >"$scratch/version.c" <<'C'
#include <gnu/libc-version.h>
#include <stdio.h>
int main(void) { return puts(gnu_get_libc_version()) < 0; }
C
there_build "$built/version" "$scratch/version.c"

run_by() { # run_by SCRIPT LOADER: makes a script that runs a program by LOADER and the libraries beside it
	cat >"$1" <<-END
		#!/bin/sh
		driver=\$1 preload=\$2
		shift 2
		exec env LD_LIBRARY_PATH="\$driver" "$2" \${preload:+--preload "\$preload"} --library-path "\$driver:$(dirname "$2")" "\$@"
	END
	chmod +x "$1"
}

check_loader() { # check_loader VERSION LOADER
	[ -x "$2" ] || fail "no loader of glibc $1: $2"
	there=$scratch/glibc-$1
	run_by "$there" "$2"
	same "version of the C library" "$1" "$("$there" "$built" "$shim" "$built/version")"
	check_calls "glibc $1"
	check_names "glibc $1"
	check_limit "glibc $1" "limit-$1"
	elsewhere tests/e2e/test_entry_runpath.sh
}

check_loader 2.31 "$(echo "$old"/lib/*/ld-2.31.so)"
# The same programs by this machine's own.
run_here "$scratch/today"
there=$scratch/today
check_calls "this machine's C library"
check_names "this machine's C library"
check_limit "this machine's C library" limit-today

new=$build/debs/debian13
reason=$(tools/dev/fetch-deb trixie main "$arch" "$new" libc6 2>&1) || skip "good with glibc 2.31; $reason"
check_loader 2.41 "$(echo "$new"/usr/lib/*/ld-linux-*.so.*)"
