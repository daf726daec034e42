# SPDX-License-Identifier: MIT
# Sourced by the tests of another architecture or C library: builds small programs and drivers for
# it, and checks there the behaviour that the shim has everywhere. The test gives
#   there_cc        the compiler for it, in words
#   there_shim      what is preloaded
#   $scratch/there  a script: there DRIVER_FOLDER PRELOAD PROGRAM... runs PROGRAM there
# shellcheck shell=sh disable=SC2154
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
there=$scratch/there
built=$scratch/built

skip() { # skip REASON
	echo "$*"
	exit 77
}

there_build() { # there_build OUTPUT SOURCE OPTION...
	output=$1 source=$2
	shift 2
	# shellcheck disable=SC2086 # a compiler in words
	$there_cc -O1 -std=gnu11 -D_GNU_SOURCE -isystem "$(sed -n 's/^CUDA_INCLUDE := //p' "$build/cuda.mk")" -o "$output" "$source" "$@" ||
		fail "not built: $source"
}

build_there() {
	for driver in echo:tests/e2e/echo_driver.c null:tests/bench/nulldriver.c; do
		mkdir -p "$built/${driver%%:*}"
		there_build "$built/${driver%%:*}/libcuda.so.1" "${driver#*:}" -shared -fPIC -fvisibility=hidden \
			-Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -ldl
	done
	there_build "$built/calls" tests/e2e/calls.c "$built/echo/libcuda.so.1"
	there_build "$built/guest" tests/e2e/guest.c -Wl,--unresolved-symbols=ignore-in-shared-libs "$built/null/libcuda.so.1"
	there_build "$built/entry" tests/e2e/entry.c -ldl
}

# Arguments of every kind arrive as they were passed, at the first call of the process and later.
check_calls() {
	direct=$("$there" "$built/echo" "" "$built/calls")
	same "$1: calls of the driver alone" 12 "$(echo "$direct" | wc -l)"
	same "$1: all calls, one after the other" "$direct" "$("$there" "$built/echo" "$there_shim" "$built/calls")"
	for call in $(echo "$direct" | awk '{ print $NF }'); do
		same "$1: $call first" "$(echo "$direct" | grep " $call\$")" "$("$there" "$built/echo" "$there_shim" "$built/calls" "$call")"
	done
	same "$1: disabled" "$direct" "$(SPILLWAY_DISABLE=1 "$there" "$built/echo" "$there_shim" "$built/calls")"
}

# The names by which programs open the driver, and what they find in it.
check_names() {
	for name in libcuda.so.1 libcuda.so noload:libcuda.so.1 deepbind:libcuda.so.1 next "$built/null/libcuda.so.1"; do
		same "$1: dlopen($name)" "$name: shim" "$("$there" "$built/null" "$there_shim" "$built/entry" "$name")"
	done
	same "$1: another library" "libm.so.6: none" "$("$there" "$built/null" "$there_shim" "$built/entry" libm.so.6)"
	same "$1: the alias alone" "libcuda.so: shim" "$("$there" "$built" "${there_shim#* }" "$built/entry" libcuda.so)"
	out=$("$there" "$built/null" "$there_shim" "$built/entry" --symbol cuMemAlloc_v2 cuMemcpyBatchAsync_v2 cuNoSuchThing)
	same "$1: dlsym" "cuMemAlloc_v2: shim
cuMemcpyBatchAsync_v2: none, said
cuNoSuchThing: none, said" "$out"
	out=$("$there" "$built/null" "$there_shim" "$built/entry" --gpa cuMemAlloc@3020 cuCtxSynchronize@3020 cuNoSuchThing@3020)
	has "$1: cuGetProcAddress" "$out" "cuMemAlloc@3020: shim 0 0"
	has "$1: cuGetProcAddress" "$out" "cuNoSuchThing@3020: none"
}

# A program that is linked to functions that Spillway does not know starts with the companion
# library and gets the driver's answers.
check_unlisted() {
	mkdir -p "$built/later"
	there_build "$built/later/libcuda.so.1" tests/e2e/later_driver.c tests/bench/nulldriver.c -I. -shared -fPIC \
		-fvisibility=hidden -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -ldl
	ln -s libcuda.so.1 "$built/later/libcuda.so"
	there_build "$built/write_companion" tests/e2e/write_companion.c tools/wheels/library_write.c -I.
	"$there" "" "" "$built/write_companion" "$built/libspillway-companion.so" cuInventedSum cuInventedScale cuInventedContext cuMemMap_v8
	for bound in lazy now; do
		there_build "$built/unlisted" tests/e2e/unlisted.c -I. -Wl,-z,$bound "$built/later/libcuda.so.1" -ldl
		direct=$("$there" "$built/later" "" "$built/unlisted" | sed 's/^\(a newer form.*\): .*/\1: 801/')
		has "$1: $bound" "$direct" "called: 126"
		same "$1: $bound" "$direct" "$("$there" "$built/later" "$there_shim $built/libspillway-companion.so" "$built/unlisted")"
	done
}

# A limit is held, memory beyond it is charged to the host, and both follow `spillway set` while the
# program runs; the tool of this machine reads the books that were written there.
check_limit() {
	job=$2
	mkfifo "$scratch/$job"
	SPILLWAY_JOB=$job SPILLWAY_MEMORY=24MiB SPILLWAY_HOST_MEMORY=16MiB "$there" "$built/null" "$there_shim" "$built/guest" \
		init context alloc:8:8 free "wait:$scratch/$job.waits" alloc:8:8 "wait:$scratch/$job.holds" free \
		<"$scratch/$job" >"$scratch/$job.out" 2>"$scratch/$job.err" &
	exec 3>"$scratch/$job"
	until_true $patience test -e "$scratch/$job.waits" || fail "$1: not ready: $(cat "$scratch/$job".*)"
	has "$1: setting a limit" "$("$spillway" set --timeout $patience "$job" --memory 40MiB)" "limit 40.0 MiB"
	echo >&3
	until_true $patience test -e "$scratch/$job.holds" || fail "$1: does not hold its memory: $(cat "$scratch/$job".*)"
	json=$("$spillway" stat "$job" --json)
	echo >&3
	wait $! || fail "$1: ended with status $?: $(cat "$scratch/$job".*)"
	exec 3>&-
	same "$1: what the program saw" "init=0 context=0 alloc=5 result=2 total=25165824 errno=kept free=0 \
alloc=7 result=2 total=41943040 errno=kept free=0 done" "$(tr '\n' ' ' <"$scratch/$job.out" | sed 's/ $//')"
	has "$1: on the device" "$json" '"device_used":41943040'
	has "$1: on the host" "$json" '"host_used":16777216'
}

# under_shim of the other tests, for those that build with CC and can run there.
elsewhere() { # elsewhere TEST
	printf '#!/bin/sh\nexec %s %s "%s" "$@"\n' "$there" "$built/null" "$there_shim" >"$scratch/elsewhere"
	chmod +x "$scratch/elsewhere"
	mkdir -p "$scratch/other"
	ELSEWHERE=$scratch/elsewhere TMPDIR=$scratch/other CC=$there_cc "$1"
}
