#!/bin/sh
# SPDX-License-Identifier: MIT
# Other libraries in the process: allocators, sanitizers, other preload libraries on either side,
# auditors and the loader's own settings. The job works, and so do they.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
neighbour=$build/tests/e2e/neighbour

[ -z "${SANITIZER:-}" ] || {
	echo "a shim built with a sanitizer brings neighbours of its own"
	exit 77
}
export SPILLWAY_MEMORY=16MiB LD_LIBRARY_PATH="$softgpu"
expected=$(LD_PRELOAD=$shim "$allocate")
has "alone" "$expected" "blocks=8 refused=0 free=0 total=16777216"

# beside WHAT PRELOAD [NAME=VALUE...]: the same answers; what the neighbour says is in $said
beside() {
	what=$1
	preload=$2
	shift 2
	env "$@" LD_PRELOAD="$preload" "$allocate" >"$scratch/out" 2>"$scratch/said" ||
		fail "$what: status $?: $(cat "$scratch/said")"
	same "$what" "$expected" "$(cat "$scratch/out")"
	said=$(cat "$scratch/said")
	case $said in *spillway:*) fail "$what: $said" ;; esac
}

# Itself once more, from another folder: the first acts, the second stands aside and says so.
cp "${shim%% *}" "$scratch/libspillway.so"
LD_PRELOAD="$shim $scratch/libspillway.so" "$allocate" >"$scratch/out" 2>"$scratch/said" ||
	fail "preloaded twice: status $?: $(cat "$scratch/said")"
same "preloaded twice" "$expected" "$(cat "$scratch/out")"
has "preloaded twice" "$(cat "$scratch/said")" "Spillway is preloaded twice: ${shim%% *} comes first and acts, another stands aside;"
same "preloaded twice: lines" 1 "$(grep -c . "$scratch/said")"
out=$(LD_PRELOAD="$scratch/libspillway.so $shim" "$build/tests/e2e/entry" libcuda.so.1 libcuda.so "$softgpu/libcuda.so.1" 2>"$scratch/said")
has "preloaded twice, dlopen" "$out" "libcuda.so.1: shim"
has "preloaded twice, dlopen by path" "$out" "$softgpu/libcuda.so.1: shim"

# An allocator that forgives nothing, first and last.
beside "allocator first" "$neighbour""_malloc.so $shim"
has "allocator first" "$said" "neighbour_malloc: "
beside "allocator last" "$shim $neighbour""_malloc.so"
has "allocator last" "$said" "neighbour_malloc: "
for library in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
	! LD_PRELOAD=$library "$allocate" 2>&1 >/dev/null | grep -q 'cannot be preloaded' || continue
	beside "$library first" "$library $shim"
	beside "$library last" "$shim $library"
done

# Another library that wraps the driver: first, it is called and calls us; last, it is out of the
# way.
beside "wrapper first" "$neighbour""_preload.so $shim"
has "wrapper first" "$said" "cuMemAlloc=8"
beside "wrapper last" "$shim $neighbour""_preload.so"
has "wrapper last" "$said" "cuMemAlloc=0"
out=$(LD_PRELOAD="$neighbour""_preload.so $shim" "$build/tests/e2e/entry" libcuda.so.1 libcuda.so 2>&1)
has "wrapper first, dlopen" "$out" "libcuda.so.1: shim"
has "wrapper first, dlopen" "$out" "libcuda.so: shim"
has "wrapper first, dlopen" "$out" "dlopen=2"

# The loader's settings.
beside "LD_BIND_NOW" "$shim" LD_BIND_NOW=1
beside "LD_DEBUG" "$shim" LD_DEBUG=all LD_DEBUG_OUTPUT="$scratch/debug"
grep -q cuMemAlloc_v2 "$scratch"/debug.* || fail "LD_DEBUG: nothing"
beside "LD_AUDIT" "$shim" LD_AUDIT="$neighbour""_audit.so"
has "LD_AUDIT" "$said" "neighbour_audit: "
beside "LD_AUDIT, LD_BIND_NOW" "$shim" LD_AUDIT="$neighbour""_audit.so" LD_BIND_NOW=1
beside "tunables" "$shim" GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:glibc.rtld.optional_static_tls=0:glibc.pthread.rseq=0

# valgrind sees no error of ours, on a driver that does nothing. Its search for leaks, which are no
# errors here, reads the whole segment, and each word beyond the file's end is a SIGBUS: 16 s.
if command -v valgrind >/dev/null; then
	out=$(LD_LIBRARY_PATH=$build/bench/null LD_PRELOAD=$shim valgrind -q --leak-check=no --error-exitcode=9 "$build/tests/e2e/guest" \
		init context alloc:8:4 free 2>&1) || fail "valgrind: $out"
	has "valgrind" "$out" "total=16777216"
	case $out in *==*) fail "valgrind: $out" ;; esac
fi

# Programs built with sanitizers, the shim without. Leaks of ours would be said at exit.
include=$(sed -n 's/^CUDA_INCLUDE *:= *//p' "$build/cuda.mk")
sanitized() { # sanitized NAME FLAGS...: builds it
	name=$1
	shift
	${CC:-cc} "$@" -O1 -g -D_GNU_SOURCE -isystem "$include" tests/e2e/allocate.c -o "$scratch/$name" -L"$softgpu" \
		-l:libcuda.so.1 2>"$scratch/said" && "$scratch/$name" --count 1 --mib 1 >/dev/null 2>&1
}
under_run() { "$spillway" run --softgpu --quiet --memory 4MiB "$@" --mib 2 --count 4 2>&1; }
expected=$(under_run "$allocate")
has "small" "$expected" "blocks=4 refused=0 free=0 total=4194304"
built=0
for name in address static undefined thread; do
	flags="-fsanitize=$name"
	[ $name != static ] || flags="-fsanitize=address -static-libasan"
	# shellcheck disable=SC2086
	sanitized $name $flags || continue
	built=$((built + 1))
	same "$name sanitizer" "$expected" "$(under_run "$scratch/$name")"
	# What the helper made last, once the program called the driver no more, who exits removes.
	# shellcheck disable=SC2086
	${CC:-cc} $flags -O1 -g -D_GNU_SOURCE -isystem "$include" tests/e2e/guest.c -o "$scratch/guest" -L"$softgpu" -l:libcuda.so.1
	out=$({
		until_true $patience sh -c 'find "$@" -name "card-*" 2>/dev/null | grep .' - "$SPILLWAY_NODE_DIR" "$SPILLWAY_STATE_DIR" &&
			echo
	} | "$spillway" run --softgpu --quiet --memory 4MiB "$scratch/guest" init context wait:"$scratch/$name.waits" 2>&1) || true
	same "$name sanitizer, with a record" "$(printf 'init=0\ncontext=0\ndone')" "$out"
done
[ $built -gt 0 ] || {
	echo "no sanitizer can be used here: $(tail -n 1 "$scratch/said")"
	exit 77
}
if [ -x "$scratch/address" ]; then
	out=$(LD_PRELOAD=$shim "$scratch/address" 2>&1 || true)
	has "without spillway run" "$out" "ASan runtime does not come first"
	out=$(ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$shim "$scratch/address" 2>&1)
	has "as it says itself" "$out" "total=16777216"
	# The user's own word stands.
	out=$(ASAN_OPTIONS=verify_asan_link_order=1 under_run "$scratch/address" || true)
	has "the user's word" "$out" "ASan runtime does not come first"
fi
