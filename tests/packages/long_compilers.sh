#!/bin/sh
# SPDX-License-Identifier: MIT
# The sources build without a warning with gcc 11 to 14 and clang, as Debian 12 and 13 have them,
# and train under a limit. test_source.sh has gcc 10.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
version=$(sed -n 's/^version := //p' Makefile)
mkdir -p "$TMPDIR/cuda"
cp -rL "$(sed -n 's/^CUDA_INCLUDE := //p' "$build/cuda.mk")" "$TMPDIR/cuda/include"
cp "$build/packages/spillway-$version.tar.gz" "$TMPDIR/"

# build_with SUITE COMPILER...: each in that Debian
build_with() {
	suite=$1
	shift
	need_root "$suite" "$@" make libc6-dev uthash-dev libinih-dev libncurses-dev procps
	for compiler; do
		in_root "
			tar -C /root -xzf /mnt/spillway-$version.tar.gz
			cd /root/spillway-$version
			$compiler --version | head -n 1
			CUDA_HOME=/mnt/cuda make -j2 CC=$compiler WERROR=1 install-out
			build/spillway run --softgpu --memory 64MiB train_mlp --scale 4" >"$scratch/$compiler" 2>&1 ||
			fail "Debian $suite, $compiler: $(tail -n 40 "$scratch/$compiler")"
		has "$compiler: the training" "$(cat "$scratch/$compiler")" 'steps=1080 accuracy=96.67'
		has "$compiler: the summary" "$(cat "$scratch/$compiler")" 'GPU at most 64.0 MiB'
		! grep -i 'warning:' "$scratch/$compiler" | grep -v '^spillway:' || fail "$compiler warns"
	done
}
build_with bookworm gcc-11 gcc-12 clang-14
build_with trixie gcc-13 gcc-14 clang-19
