# SPDX-License-Identifier: MIT
# Sourced: the tarball of `make dist`, built and installed in another system, with its compiler.
# shellcheck shell=sh
# shellcheck source=tests/packages/readme.sh
. tests/packages/readme.sh

# source_in SUITE: README's line for the sources there, its two that train, the demo, which names
# what it needs, and `make uninstall`
source_in() {
	need_root "$1" gcc make libc6-dev uthash-dev libinih-dev libncurses-dev procps python3
	mkdir -p "$TMPDIR/cuda"
	rm -rf "$TMPDIR/cuda/include"
	cp -rL "$(sed -n 's/^CUDA_INCLUDE := //p' "$build/cuda.mk")" "$TMPDIR/cuda/include"
	cp "$build/packages/spillway-$version.tar.gz" "$TMPDIR/"
	in_root "
		tar -C /root -xzf /mnt/spillway-$version.tar.gz
		cd /root/spillway-$version
		gcc --version | head -n 1
		export CUDA_HOME=/mnt/cuda DEPS=never MAKEFLAGS=-j2 PATH=/root/.local/bin:\$PATH
		{
			$(line 3)
		} 2>&1
		cp /mnt/train.py .
		sh -eu /mnt/trains
		! CC=none make demo 2>&1
		SECONDS_ALONE=1 make demo 2>&1
		make uninstall PREFIX=~/.local
		! find ~/.local -type f | grep ." >"$scratch/$1" 2>&1 || fail "$1: $(cat "$scratch/$1")"
	trains "$scratch/$1"
	has "$1: no compiler" "$(cat "$scratch/$1")" 'apt-get install -y --no-install-recommends gcc libc6-dev '
	has "$1: the demo" "$(cat "$scratch/$1")" 'limit raised again'
	has "$1: the demo" "$(cat "$scratch/$1")" 'the same weights to the last bit'
	! grep -i 'warning:' "$scratch/$1" || fail "$1: the compiler warns"
}
