#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel for aarch64, built here by the cross compiler: its judges find nothing, and its command
# starts under an emulator.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
target=aarch64-linux-gnu
for program in $target-gcc qemu-aarch64; do
	command -v $program >/dev/null || {
		echo "no $program here (Debian: gcc-$target libc6-dev-arm64-cross qemu-user)"
		exit 77
	}
done
version=$(sed -n 's/^version := //p' Makefile)
bin=$PWD/build/packages/venv/bin
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CFLAGS CPPFLAGS LDFLAGS BUILD
mkdir -p build-$target
cp "$build/cuda.mk" build-$target/
make -j"$(nproc)" CROSS=$target- DEPS=never wheel >"$scratch/said" 2>&1 || fail "make wheel: $(tail -n 30 "$scratch/said")"
wheel=build-$target/packages/gpu_spillway-$version-py3-none-manylinux_2_28_aarch64.whl
"$bin/twine" check --strict "$wheel" >"$scratch/twine" 2>&1 || fail "twine: $(cat "$scratch/twine")"
"$bin/auditwheel" -v show "$wheel" >"$scratch/auditwheel" 2>&1 || fail "auditwheel: $(cat "$scratch/auditwheel")"
tr '\n' ' ' <"$scratch/auditwheel" | grep -Eq 'constrains the platform tag to "manylinux_2_(1[0-9]|2[0-8])_aarch64' ||
	fail "auditwheel: $(cat "$scratch/auditwheel")"
bytes=$(wc -c <"$wheel")
[ "$bytes" -le $((6 << 20)) ] || fail "the wheel has $bytes bytes, more than 6 MiB"
"$bin/python" -m zipfile -e "$wheel" "$scratch/wheel"
root=$scratch/wheel/gpu_spillway-$version.data
find "$root" -type f | while read -r file; do
	case $(head -c 4 "$file" | od -An -tx1) in *'7f 45 4c 46') ;; *) continue ;; esac
	readelf -h "$file" | grep -q 'Machine: *AArch64' || fail "$file is of another machine"
	newest=$(readelf -W --dyn-syms "$file" | sed -n 's/.*@GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
	[ "${newest:-17}" -le 28 ] || fail "$file wants glibc 2.$newest"
	echo "$file"
done >"$scratch/objects" || {
	tail -n 1 "$scratch/objects"
	exit 1
}
[ "$(wc -l <"$scratch/objects")" -ge 15 ] || fail "few objects: $(cat "$scratch/objects")"
chmod +x "$root/scripts/spillway"
command="qemu-aarch64 -cpu max -L /usr/$target $root/scripts/spillway"
same 'its version' "spillway $version" "$($command --version)"
$command --help >"$scratch/help" || fail '--help'
"$spillway" --help | diff - "$scratch/help" || fail 'its help differs from that of this machine'
