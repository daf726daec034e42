# Sourced: the tarball of `make dist`, built and installed in another Debian, with its compiler.
# shellcheck shell=sh

# source_in SUITE: `make install` there, a training under a limit, and `make uninstall`
source_in() {
	need_root "$1" gcc make libc6-dev uthash-dev libinih-dev libncurses-dev procps
	mkdir -p "$TMPDIR/cuda"
	rm -rf "$TMPDIR/cuda/include"
	cp -rL "$(sed -n 's/^CUDA_INCLUDE := //p' "$build/cuda.mk")" "$TMPDIR/cuda/include"
	cp "$build/packages/spillway-$version.tar.gz" "$TMPDIR/"
	in_root "
		tar -C /root -xzf /mnt/spillway-$version.tar.gz
		cd /root/spillway-$version
		gcc --version | head -n 1
		CUDA_HOME=/mnt/cuda DEPS=never make -j2 install PREFIX=~/.local 2>&1
		~/.local/bin/spillway run --softgpu --memory 64MiB train_mlp --scale 4 2>&1
		make uninstall PREFIX=~/.local
		! find ~/.local -type f | grep ." >"$scratch/$1" 2>&1 || fail "Debian $1: $(cat "$scratch/$1")"
	has "Debian $1: the training" "$(cat "$scratch/$1")" 'steps=1080 accuracy=96.67'
	has "Debian $1: the summary" "$(cat "$scratch/$1")" 'peak 64.0 MiB on the GPU'
	! grep -i 'warning:' "$scratch/$1" || fail "Debian $1: the compiler warns"
}
