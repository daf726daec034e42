#!/bin/sh
# SPDX-License-Identifier: MIT
# In a container with a seccomp profile that refuses system calls a job works as outside: same
# answers, same bits, same limits, and no complaint.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
deny=$build/tests/e2e/deny
train=$build/clients/train_mlp

"$deny" membarrier -- true 2>"$scratch/err" || {
	cat "$scratch/err"
	exit 77
}
export SPILLWAY_MEMORY=16MiB

# limited_job NAME COMMAND...: its output in $got; stderr is empty and the job had to spill
limited_job() {
	job=$1
	shift
	LD_LIBRARY_PATH=$softgpu SPILLWAY_JOB=$job "$@" >"$scratch/out" 2>"$scratch/err" ||
		fail "$job: status $?: $(cat "$scratch/err")"
	got=$(cat "$scratch/out")
	[ ! -s "$scratch/err" ] || fail "$job: says $(cat "$scratch/err")"
	case $("$spillway" stat "$job" --json) in
	*'"spilled_bytes":0'*) fail "$job: nothing spilled" ;;
	*'"spilled_bytes":'*) ;;
	*) fail "$job: no statistics" ;;
	esac
}
limited_job outside env LD_PRELOAD="$shim" "$allocate"
expected=$got
has "outside" "$expected" "total=16777216"

# What Docker's default profile has refused at one time or another, and what a stricter one may.
container='futex_waitv statx mbind set_mempolicy get_mempolicy pidfd_open pidfd_getfd kcmp move_pages
	userfaultfd process_vm_readv membarrier getrandom clone3=ENOSYS'
[ "${SANITIZER:-}" = thread ] || container="$container madvise" # which that sanitizer cannot do without
for error in EPERM ENOSYS; do
	refused=
	for name in $container; do
		case $name in *=*) refused="$refused $name" ;; *) refused="$refused $name=$error" ;; esac
	done
	# shellcheck disable=SC2086 # a list of words
	limited_job "refused-$error" "$deny" $refused -- env LD_PRELOAD="$shim" "$allocate"
	same "refused with $error" "$expected" "$got"
done

# Anonymous files are a need of the software GPU alone.
out=$(LD_LIBRARY_PATH=$build/bench/null SPILLWAY_JOB=no-memfd "$deny" memfd_create -- \
	env LD_PRELOAD="$shim" "$build/tests/e2e/entry" --init 2>&1)
has "memfd_create" "$out" "cuInit 0"
has "memfd_create" "$("$spillway" stat no-memfd)" "no-memfd"

# each WHAT CALL...: refused alone, with either answer: the same bits and nothing wrong; a job or
# none, and then one line that says so. The limit holds either way.
each() {
	what=$1
	shift
	for name in "$@"; do
		for error in EPERM ENOSYS; do
			LD_LIBRARY_PATH=$softgpu SPILLWAY_JOB=each-$name-$error "$deny" "$name=$error" -- \
				env LD_PRELOAD="$shim" "$allocate" >"$scratch/out" 2>"$scratch/err" ||
				fail "$name=$error: status $?: $(cat "$scratch/err")"
			has "$name=$error" "$(cat "$scratch/out")" "refused=0"
			has "$name=$error" "$(cat "$scratch/out")" "total=16777216"
			has "$name=$error" "$(cat "$scratch/out")" "ok bad=0"
			case $what in
			joins)
				[ ! -s "$scratch/err" ] || fail "$name=$error: says $(cat "$scratch/err")"
				same "$name=$error" "$expected" "$(cat "$scratch/out")"
				;;
			alone)
				same "$name=$error: lines" 1 "$(grep -c . "$scratch/err")"
				has "$name=$error" "$(cat "$scratch/err")" "is not in the job's books"
				;;
			esac
		done
	done
}
if [ -z "${SANITIZER:-}" ]; then # which needs some of them itself
	each joins flock fstat getcwd futex_waitv getdents64 membarrier mkdirat ppoll prctl readlinkat renameat2 rseq \
		sysinfo unlinkat
	if [ "$(uname -m)" = x86_64 ]; then each joins access mkdir poll readlink rename unlink; fi
	each alone fallocate fchmod fcntl set_robust_list
fi

# Without futex no thread can wait for another: glibc ends a process that tries. Nothing of ours
# does; the software GPU does.
cat >"$scratch/alone.py" <<'P'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), [ctypes.c_uint64() for _ in range(4)]
answers = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)]
for size, at in zip((300, 4096, 8 << 20, 40 << 20), memory):
    answers.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
answers += [cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None), cuda.cuCtxSynchronize()]
answers += [cuda.cuMemFree_v2(at) for at in memory] + [cuda.cuCtxDestroy_v2(context)]
print("answers", sum(answers), "of", len(answers))
P
no_futex() { # no_futex SETTING
	for error in EPERM ENOSYS; do
		env "$@" LC_ALL=C SPILLWAY_JOB=no-futex LD_LIBRARY_PATH="$build/bench/null" "$deny" futex=$error -- \
			env LD_PRELOAD="$shim" python3 "$scratch/alone.py" >"$scratch/out" 2>"$scratch/err" ||
			fail "futex=$error $*: status $?: $(cat "$scratch/err")"
		same "futex=$error $*" "answers 0 of 14" "$(cat "$scratch/out")"
		has "futex=$error $*" "$(cat "$scratch/err")" "no helper thread (futex: "
	done
}
if [ -z "${SANITIZER:-}" ]; then # whose own locks end a process too
	no_futex SPILLWAY_MEMORY=16MiB
	has "limited without futex" "$(cat "$scratch/err")" "is not in the job's books"
	no_futex SPILLWAY_MEMORY= SPILLWAY_SHARE=30
	has "unlimited without futex" "$(cat "$scratch/err")" "Spillway is off in this process"
fi

# A training has the same weights, to the bit, and follows a change although nothing tells it of
# files.
train_job() { # its checksum in $weights
	limited_job "$@" env LD_PRELOAD="$shim" "$train" --quiet --epochs 2
	weights=$(field checksum "$got")
}
export SPILLWAY_MEMORY=1MiB
train_job train
plain=$weights
[ -n "$plain" ] || fail "the training says no checksum"
# shellcheck disable=SC2086
train_job train-refused "$deny" $refused --
same "weights" "$plain" "$weights"

# shellcheck disable=SC2086
SPILLWAY_JOB=follows LD_LIBRARY_PATH=$softgpu "$deny" $refused -- env LD_PRELOAD="$shim" "$allocate" \
	--hold-ms 600000 --ready "$scratch/ready" >/dev/null 2>&1 &
running=$!
until_true $patience test -e "$scratch/ready" || fail "not running"
"$spillway" set --timeout $patience follows --memory 64MiB >"$scratch/out" 2>&1 || fail "set: $(cat "$scratch/out")"
has "set" "$(cat "$scratch/out")" "limit 64.0 MiB"
kill -KILL $running
