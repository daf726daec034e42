#!/bin/sh
# The shim built here does on the C library of Debian 11 (glibc 2.31) what it does on this machine's.
#
# The library is Debian's own, unpacked into the build folder; programs are compiled against it, run by its loader,
# and run by this machine's loader too.
set -eu
# shellcheck source=tests/e2e/elsewhere.sh
. tests/e2e/elsewhere.sh
skip() {
	echo "$*"
	exit 77
}
[ -z "${SANITIZER:-}" ] || skip "a sanitizer's library is made for this machine's C library"
arch=$(dpkg --print-architecture 2>/dev/null) || skip "no dpkg here to unpack Debian 11's C library"
root=$build/debs/debian11
reason=$(tools/dev/fetch-deb bullseye main "$arch" "$root" libc6 libc6-dev linux-libc-dev 2>&1) || skip "$reason"
loader=$(echo "$root"/lib/*/ld-2.31.so)
[ -x "$loader" ] || fail "no loader of glibc 2.31 in $root"
libraries=$(dirname "$loader")

# -B: before the folders that a compiler has of its own
there_cc="${CC:-cc} --sysroot=$root -B$(echo "$root"/usr/lib/*-linux-gnu)"
there_shim=$shim
cat >"$scratch/there" <<END
#!/bin/sh
driver=\$1 preload=\$2
shift 2
exec env LD_LIBRARY_PATH="\$driver" "$loader" \${preload:+--preload "\$preload"} --library-path "\$driver:$libraries" "\$@"
END
run_here "$scratch/here"
chmod +x "$scratch/there"
build_there

cat >"$scratch/version.c" <<'C'
#include <gnu/libc-version.h>
#include <stdio.h>
int main(void) { return puts(gnu_get_libc_version()) < 0; }
C
there_build "$built/version" "$scratch/version.c"
same "version of the C library" 2.31 "$("$there" "$built" "$shim" "$built/version")"
# Every reference of the shim is bound there, functions too: it is linked -z now.
for name in "glibc 2.31" "the C library of today"; do
	check_calls "$name"
	check_names "$name"
	check_limit "$name" "limit-$(basename "$there")"
	there=$scratch/here
done
there=$scratch/there
elsewhere tests/e2e/test_entry_runpath.sh
