#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel for aarch64 is built here by the cross compiler. Its judges find nothing. Its command
# starts under an emulator and trains there to the bit as this machine does.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
target=aarch64-linux-gnu
for program in $target-gcc qemu-aarch64; do
	command -v "$program" >/dev/null || {
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

# Programs that it starts are of that machine, too: the kernel hands each to the emulator, in a
# namespace of its own (Linux 6.7 and newer).
installed=$scratch/installed
cp -r "$root/data" "$installed"
cp -r "$root/scripts" "$installed/bin"
chmod -R +x "$installed/bin" "$installed/lib/spillway"
cat >"$scratch/trains" <<'END'
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || exit 77
emulator=$(command -v qemu-aarch64)
printf '%s' ':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'":$emulator:F" \
	>/proc/sys/fs/binfmt_misc/register || exit 77
exec "$@"
END
train='run --softgpu --memory 64MiB train_mlp --scale 4 --epochs 2'
status=0
mkdir "$scratch/there" # the software GPU's books of that machine have another layout
# shellcheck disable=SC2086 # words
SOFTGPU_STATE_DIR=$scratch/there QEMU_LD_PREFIX=/usr/$target QEMU_CPU=max unshare -U -r --mount sh "$scratch/trains" "$installed/bin/spillway" $train >"$scratch/emulated" 2>&1 || status=$?
[ $status -ne 77 ] || {
	echo "no training: the kernel starts no programs of aarch64 here: $(tail -n 1 "$scratch/emulated")"
	exit 77
}
[ $status -eq 0 ] || fail "the training: $(cat "$scratch/emulated")"
# shellcheck disable=SC2086 # words
"$spillway" $train >"$scratch/here" 2>&1 || fail "the training here: $(cat "$scratch/here")"
result() { sed -n 's/^train_mlp: .*steps=90 \(accuracy=[0-9.]*\) .* \(checksum=.*\)/\1 \2/p' "$1"; }
has 'the training here' "$(result "$scratch/here")" checksum=
same 'the training' "$(result "$scratch/here")" "$(result "$scratch/emulated")"
has 'its summary' "$(cat "$scratch/emulated")" 'GPU at most 64.0 MiB'
