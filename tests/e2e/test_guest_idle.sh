#!/bin/sh
# SPDX-License-Identifier: MIT
# A process without CUDA under the preloaded objects: past their loading it makes no system call
# that it would not make beside two empty ones. So no file, thread, mapping or memory of Spillway's.
# One that has memory on the host and does nothing: it is not asked again and again how much of the
# host's is left.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
if [ -n "$SANITIZER" ]; then
	echo "a sanitizer makes system calls of its own"
	exit 77
fi
empty=$build/tests/e2e/empty.so
cp "$empty" "$scratch/empty2.so"

# trace NAME PRELOAD COMMAND...: what is not the loading of a library, in $scratch/NAME
trace() {
	name=$1
	export TRACED_PRELOAD="$2"
	shift 2
	rc=0
	LD_LIBRARY_PATH=$softgpu "$build/tests/e2e/syscalls" "$scratch/$name.all" "$@" >"$scratch/said" 2>&1 || rc=$?
	if [ $rc -eq 77 ]; then
		echo "programs must not be traced here"
		exit 77
	fi
	same "$name: exit status of $*: $(cat "$scratch/said")" 0 $rc
	# The loader's own: opening, reading and mapping objects, private only.
	grep -v -x -e "$loading" -e "private mapping" "$scratch/$name.all" | sort >"$scratch/$name"
}

others=$shim
[ ! -e "$build/lib/libspillway-2.34.so" ] || others="$build/lib/libspillway-2.34.so $build/lib/libspillway-alias.so"

# The numbers of read, pread64, fstat, newfstatat, mprotect, munmap and close, as <sys/syscall.h>
# has them, and the objects: ours, and two of glibc's that are empty since 2.34.
numbers=$(printf '#include <sys/syscall.h>\nN SYS_read SYS_pread64 SYS_fstat SYS_newfstatat SYS_mprotect SYS_munmap SYS_close\n' |
	${CC:-cc} -E -P - | sed -n 's/^N //p' | sed 's/ /\\|/g')
loading="open .*/\\(libspillway\\(-alias\\|-2.34\\)\\?\\|libdl\\|libpthread\\|empty2\\?\\)\\.so[.0-9]*\\|$numbers"

# alike WHAT COMMAND...: how many signals of children that end at once a shell is told, and so how
# often it returns from its handler, differs from run to run. What an object adds is always there.
alike() {
	what=$1
	shift
	for objects in "$shim" "$others"; do
		try=1
		until
			trace empty "$empty $scratch/empty2.so" "$@"
			trace ours "$objects" "$@"
			[ -s "$scratch/ours" ] || fail "$what: nothing was traced"
			diff "$scratch/empty" "$scratch/ours" >"$scratch/diff"
		do
			[ $try -lt 10 ] ||
				fail "$what does what it would not do without us (>): $(cat "$scratch/diff")"
			try=$((try + 1))
		done
	done
}

alike "true" /bin/true
# shellcheck disable=SC2016 # for the shell that is tested
alike "a shell with children" sh -c 'for i in 1 2; do /bin/true; done; (exit 0); echo $(echo sub) | cat >/dev/null'
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || python=
if [ -n "$python" ]; then
	# A data loader: forks, and its child ends by exit handlers.
	alike "python" "$python" -S -E -B -c 'import os; p = os.fork(); p and os.waitpid(p, 0)'
fi

# That it is seen when something is done.
trace cuda "$shim" "$build/tests/e2e/allocate" --count 1
grep -q "^open $SPILLWAY_STATE_DIR" "$scratch/cuda.all" || fail "the opening of the state directory was not seen"
grep -q "^shared mapping" "$scratch/cuda.all" || fail "the mapping of the segment was not seen"

# 16 MiB of its 32 are on the host, and stay there.
reads() { grep -c "^open /proc/meminfo" "$scratch/spilled.all" || true; }
export SPILLWAY_MEMORY=16MiB
{ until_true $patience test -e "$scratch/waits" && sleep 1.5 && echo; } |
	trace spilled "$shim" "$build/tests/e2e/guest" init context alloc:8:4 wait:"$scratch/waits" free
[ "$(reads)" -gt 0 ] || fail "where the host's memory is asked for was not seen"
[ "$(reads)" -le 16 ] || fail "an idle program: what is left of the host's memory was read $(reads) times"
