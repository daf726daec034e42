# SPDX-License-Identifier: MIT
# Sourced by the tests of the shim for aarch64, which run it under an emulator of that machine:
# cross-builds it.
# shellcheck shell=sh disable=SC2034
# shellcheck source=tests/e2e/elsewhere.sh
. tests/e2e/elsewhere.sh
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
exec 7>"build-$target/.lock" # another test may build it just now
flock 7
cp "$build/cuda.mk" "build-$target"
make -j"$(nproc)" CROSS=$target- CPPFLAGS="-I$packages/usr/include" LDFLAGS="-B$packages/usr/lib/$target" shim >"$scratch/make" 2>&1 ||
	fail "not cross-built: $(tail -n 20 "$scratch/make")"
exec 7>&-
cross=$PWD/build-$target

cat >"$scratch/there" <<END
#!/bin/sh
driver=\$1 preload=\$2
shift 2
exec qemu-aarch64 -cpu max -L /usr/$target \\
	\${THERE_DEBUG:+-E LD_DEBUG=bindings -E LD_DEBUG_OUTPUT="\$THERE_DEBUG"} \${preload:+-E LD_PRELOAD="\$preload"} -E LD_LIBRARY_PATH="\$driver" "\$@"
END
chmod +x "$scratch/there"
there_cc=$target-gcc
there_shim="$cross/lib/libspillway.so $cross/lib/libspillway-alias.so"
