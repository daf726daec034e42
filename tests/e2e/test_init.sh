#!/bin/sh
# SPDX-License-Identifier: MIT
# The cost of cuInit, a context and the end for a short program, by its system calls. No call makes
# the kernel wait for other processors (membarrier). There is no inotify, for which a process's end
# waits. Before the first paced launch there is no thread except the helper.
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

# trace NAME COMMAND...: its system calls in $scratch/NAME, in order; with $settings and $preload
trace() {
	name=$1
	shift
	rc=0
	# shellcheck disable=SC2086 # none or one
	env $settings ${preload:+TRACED_PRELOAD="$preload"} LD_LIBRARY_PATH="$softgpu" \
		"$build/tests/e2e/syscalls" "$scratch/$name" "$@" >"$scratch/said" 2>&1 || rc=$?
	if [ $rc -eq 77 ]; then
		echo "programs must not be traced here"
		exit 77
	fi
	same "$name: exit status of $*: $(cat "$scratch/said")" 0 $rc
}
first() { # first FILE LINE: the number of the first such line, or nothing
	grep -n -x -m 1 "$2" "$scratch/$1" | cut -d: -f1
}

threads() { # threads FILE: how many were started
	grep -c -x -e "$(number clone)" -e "$(number clone3)" "$scratch/$1" || true
}
yields=$(number sched_yield)
settings='' preload=''
trace without "$build/tests/e2e/entry" --init
preload=$shim
for job in unnamed named limited paced; do
	most=220 # system calls more than without us, 40 of which load libraries
	case $job in
	unnamed) settings= ;;
	named) settings=SPILLWAY_JOB=named ;;
	limited) settings=SPILLWAY_MEMORY=64MiB ;;
	paced) settings=SPILLWAY_SHARE=50 most=270 ;;
	esac
	trace "$job" "$build/tests/e2e/allocate" --count 1
	grep -q "^open $SPILLWAY_STATE_DIR" "$scratch/$job" || fail "$job: took no part in a job"
	same "$job: calls of membarrier" 0 "$(grep -c -x "$(number membarrier)" "$scratch/$job" || true)"
	same "$job: calls of inotify_init1" 0 "$(grep -c -x "$(number inotify_init1)" "$scratch/$job" || true)"

	trace "$job" "$build/tests/e2e/entry" --init
	same "$job: threads" $(($(threads without) + 1)) "$(threads "$job")"
	# How often a thread yields to the helper until that has run depends on who else runs.
	more=$(($(grep -c -v -x "$yields" "$scratch/$job") - $(wc -l <"$scratch/without")))
	[ "$more" -lt $most ] || fail "$job: $more system calls more than without us, expected fewer than $most"
done

# It is asked for when memory moves: no passage of the gate pays a fence then, where the kernel has
# it.
if LD_LIBRARY_PATH=$softgpu "$spillway" doctor 2>/dev/null | grep -q '^--  container: membarrier'; then exit 0; fi
settings="SPILLWAY_JOB=moves SPILLWAY_MEMORY=64MiB"
trace moves "$build/tests/e2e/allocate" --mib 8 --count 4 --ready "$scratch/ready" --until "$scratch/until" &
tracer=$!
until_true $patience test -e "$scratch/ready" || fail "not running"
"$spillway" set --timeout $patience moves --memory 16MiB >"$scratch/set" 2>&1 || fail "set: $(cat "$scratch/set")"
touch "$scratch/until"
wait $tracer || exit $?
asked=$(grep -c -x "$(number membarrier)" "$scratch/moves" || true)
[ "$asked" -ge 3 ] || fail "moves: $asked calls of membarrier, expected two to ask for it and one for each closing"
