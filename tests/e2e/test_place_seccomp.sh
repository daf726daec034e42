#!/bin/sh
# In a container whose seccomp profile refuses system calls a job works as outside: same answers, same
# bits, same limits, and nothing to complain of.
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
export SPILLWAY_MEMORY_LIMIT=16MiB

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
container='inotify_init1 statx mbind set_mempolicy get_mempolicy pidfd_open pidfd_getfd kcmp move_pages
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

# A training has the same weights, to the bit, and follows a change although nothing tells it of files.
train_job() { # its checksum in $weights
	limited_job "$@" env LD_PRELOAD="$shim" "$train" --quiet --epochs 2
	weights=$(field checksum "$got")
}
export SPILLWAY_MEMORY_LIMIT=1MiB
train_job train
plain=$weights
[ -n "$plain" ] || fail "the training says no checksum"
# shellcheck disable=SC2086
train_job train-refused "$deny" $refused --
same "weights" "$plain" "$weights"

# shellcheck disable=SC2086
SPILLWAY_JOB=follows LD_LIBRARY_PATH=$softgpu "$deny" $refused -- env LD_PRELOAD="$shim" "$allocate" \
	--hold-ms 60000 --ready "$scratch/ready" >/dev/null 2>&1 &
running=$!
until_true $patience test -e "$scratch/ready" || fail "not running"
"$spillway" set follows --memory 64MiB >"$scratch/out" 2>&1 || fail "set: $(cat "$scratch/out")"
has "set" "$(cat "$scratch/out")" "limit_set 64.0 MiB"
kill -KILL $running
