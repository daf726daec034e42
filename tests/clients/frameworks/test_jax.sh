#!/bin/sh
# JAX from PyPI, unmodified, with none of NVIDIA's wheels: `spillway run --softgpu python3` is all
# that is typed. A network of dense layers and a transformer of Flax's, in fp32 and bf16, end with
# the weights of the direct run, bit for bit, and are refused nothing: under half of the memory that
# they take, under a quarter, and under limits, pauses and evictions that change at random.
# SEED repeats these; SCHEDULES (1) is how many there are. Each run is told the same total.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/jax" ] || skip "no JAX: make frameworks"
unset LD_LIBRARY_PATH
export SOFTGPU_MEMORY=1536M SPILLWAY="$spillway" OPTIONS="--softgpu"
# What is compiled once serves all runs.
export JAX_COMPILATION_CACHE_DIR="$scratch/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
total_mib=1536 program="python3 $here/jax_trains.py mlp fp32 bf16"

# told NAME COMMAND...: its output without the tool's lines; the rest is in $scratch/NAME.err
told() {
	name=$1
	shift
	"$@" >"$scratch/$name.out" 2>"$scratch/$name.err" ||
		fail "$name: $(tail -n 20 "$scratch/$name.out" "$scratch/$name.err")"
	sed -n 's/\(.* weights=[^ ]*\) .*/\1/p' "$scratch/$name.out" >"$scratch/$name"
	[ -s "$scratch/$name" ] || fail "$name has printed no weights"
}

# within NAME MIB OPTION...: a job with that limit
within() {
	job=$1 mib=$2
	shift 2
	# shellcheck disable=SC2086 # its words
	told "$job" "$spillway" run --softgpu --name "$job" --memory "${mib}MiB" --reported limit+host \
		--host-memory $((total_mib - mib))MiB "$@" $program
}

# weigh NAME: it ended as the direct run did, and was refused nothing.
weigh() {
	same "$1: refusals" 0 "$(counter "$1" refusals)"
	same "$1" "$(cat "$scratch/direct")" "$(cat "$scratch/$1")"
}

# Without Spillway, with the variables that `run --softgpu` sets.
# shellcheck disable=SC2016 # for the inner shell
"$spillway" run --softgpu --quiet sh -c \
	'export -p | grep -E "XLA_FLAGS|XLA_PYTHON_CLIENT_PREALLOCATE|JAX_SKIP"' >"$scratch/set"
# shellcheck disable=SC2086,SC1091 # its words; made above
told direct env LD_LIBRARY_PATH="$softgpu" LD_PRELOAD="$softgpu/libsoftgpu-node.so" sh -c '. "$0"; exec "$@"' "$scratch/set" $program
cat "$scratch/direct.out"
peak=$(sed -n 's/.*peak=\([0-9]*\)MiB.*/\1/p' "$scratch/direct.out" | sort -n | tail -n 1)

within half $((peak / 2))
weigh half
within quarter $((peak / 4)) --share 50
weigh quarter
for job in half quarter; do
	[ "$(counter $job host_peak)" -gt 0 ] || fail "$job has had nothing on the host"
done
for i in $(seq "${SCHEDULES:-1}"); do
	# shellcheck disable=SC2086 # its words
	told "changing$i" $here/schedule.py "changing$i" "$peak" $program
	grep 'seed=' "$scratch/changing$i.out"
	weigh "changing$i"
done
