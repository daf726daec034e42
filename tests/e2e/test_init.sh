#!/bin/sh
# What a short program pays for cuInit, a context and its end, by its system calls: none after which the kernel waits for
# other processors (membarrier), and inotify, for which a process's end waits, only where it lives longer.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
if [ -n "$SANITIZER" ]; then
	echo "a sanitizer makes system calls of its own"
	exit 77
fi
number() { # number NAME: as <sys/syscall.h> has it
	printf '#include <sys/syscall.h>\nN SYS_%s\n' "$1" | ${CC:-cc} -E -P - | sed -n 's/^N //p'
}

# trace NAME COMMAND...: its system calls in $scratch/NAME, in order
trace() {
	name=$1
	shift
	rc=0
	TRACED_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$build/tests/e2e/syscalls" "$scratch/$name" "$@" >"$scratch/said" 2>&1 || rc=$?
	if [ $rc -eq 77 ]; then
		echo "programs must not be traced here"
		exit 77
	fi
	same "$name: exit status of $*: $(cat "$scratch/said")" 0 $rc
}
first() { # first FILE NUMBER: the line of the first such call, or nothing
	grep -n -x -m 1 "$2" "$scratch/$1" | cut -d: -f1
}

for job in unnamed limited paced; do
	case $job in
	unnamed) settings= ;;
	limited) settings=SPILLWAY_MEMORY_LIMIT=64MiB ;;
	paced) settings=SPILLWAY_SHARE=50 ;;
	esac
	# shellcheck disable=SC2086 # none or one
	trace $job env $settings "$build/tests/e2e/allocate" --count 1
	grep -q "^open $SPILLWAY_STATE_DIR" "$scratch/$job" || fail "$job: took no part in a job"
	same "$job: calls of membarrier" 0 "$(grep -c -x "$(number membarrier)" "$scratch/$job" || true)"
	watched=$(first $job "$(number inotify_init1)")
	slept=$(first $job "$(number clock_nanosleep)")
	[ -z "$watched" ] || [ "${slept:-$watched}" -lt "$watched" ] || fail "$job: files are watched from the start"
done
