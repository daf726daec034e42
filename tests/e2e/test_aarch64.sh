#!/bin/sh
# The shim for aarch64, cross-built, does there what it does here: run under an emulator of that machine.
set -eu
# shellcheck source=tests/e2e/elsewhere.sh
. tests/e2e/elsewhere.sh
skip() {
	echo "$*"
	exit 77
}
[ -z "${SANITIZER:-}" ] || skip "cross-built without sanitizers"
case $(uname -m) in aarch64 | arm64) skip "this machine is an aarch64 itself: every test runs on it" ;; esac
target=aarch64-linux-gnu
for program in $target-gcc qemu-aarch64; do
	command -v "$program" >/dev/null 2>&1 || skip "$program is not here (Debian: gcc-$target libc6-dev-arm64-cross qemu-user)"
done
packages=$build/debs/arm64
reason=$(tools/dev/fetch-deb "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" main arm64 "$packages" libinih-dev 2>&1) || skip "$reason"

# What `make shim` builds, with nothing of the make that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CFLAGS CPPFLAGS LDFLAGS
mkdir -p "build-$target"
cp "$build/cuda.mk" "build-$target"
make -j2 CROSS=$target- CPPFLAGS="-I$packages/usr/include" LDFLAGS="-B$packages/usr/lib/$target" shim >"$scratch/make" 2>&1 ||
	fail "not cross-built: $(tail -n 20 "$scratch/make")"
cross=$PWD/build-$target

# The same names as here, and nothing from a glibc newer than 2.28.
names() { nm -D --defined-only "$1/lib/libspillway.so" | awk '{ print $NF }' | LC_ALL=C sort; }
names "$build" >"$scratch/here"
names "$cross" | diff "$scratch/here" - >&2 || fail "exports differ from those of this machine's (<)"
has "built for" "$(readelf -h "$cross/lib/libspillway.so")" "AArch64"
nm -D "$cross/lib/libspillway.so" | sed -n 's/.* \([A-Za-z0-9_]*@GLIBC_[0-9.]*\)$/\1/p' >"$scratch/imports"
[ -s "$scratch/imports" ] || fail "no imports were found"
newer=$(awk -F'GLIBC_2.' '{ split($2, v, "."); if (v[1] + 0 > 28) print }' "$scratch/imports")
same "imports newer than GLIBC_2.28 (core/base/glibc.h)" "" "$newer"

cat >"$scratch/there" <<END
#!/bin/sh
driver=\$1 preload=\$2
shift 2
exec qemu-aarch64 -cpu max -L /usr/$target \${preload:+-E LD_PRELOAD="\$preload"} -E LD_LIBRARY_PATH="\$driver" "\$@"
END
chmod +x "$scratch/there"
there_cc=$target-gcc
there_shim="$cross/lib/libspillway.so $cross/lib/libspillway-alias.so"
build_there
check_calls aarch64
check_names aarch64
check_limit aarch64 limit-aarch64
elsewhere tests/e2e/test_entry_runpath.sh

# The trampolines have landing pads and say so: the emulated processor stops a jump to any other place (BTI).
there_build "$built/libtrampolines.so" tests/e2e/trampolines_alone.c "$cross/shim/trampolines.o" -I. -shared -fPIC \
	-fvisibility=hidden -nostartfiles -mbranch-protection=standard -Wl,-soname,libcuda.so.1 -ldl
has "note of the trampolines" "$(readelf -nW "$built/libtrampolines.so")" "BTI"
export ECHO_DRIVER="$built/echo/libcuda.so.1"
there_shim=$built/libtrampolines.so
check_calls "landing pads"
