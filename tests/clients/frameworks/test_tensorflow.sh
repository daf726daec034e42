#!/bin/sh
# TensorFlow from PyPI, unmodified, trains operation by operation and compiled by XLA. It ends with
# the same weights, bit for bit, and is refused nothing: under half of the memory that it takes,
# under a quarter of it with half the GPU's time, and under limits, pauses and evictions that change
# at random (SEED repeats them). Each run is told the same total: limit and host are 1536 MiB.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/tensorflow" ] || skip "no TensorFlow: make frameworks"
libdevice=$(find "${CUDA_HOME:-/usr/local/cuda}/nvvm/libdevice/" -name 'libdevice*.bc' 2>/dev/null | head -n 1)
[ -n "$libdevice" ] || skip "no libdevice.10.bc of a CUDA toolkit: TensorFlow's wheel has none"

# Its kernels are PTX for compute capability 9.0. Triton, whose kernels want tensor cores, is off:
# products of compiled code are cuBLAS's.
export SOFTGPU_ATTRIBUTES=COMPUTE_CAPABILITY_MAJOR=9,COMPUTE_CAPABILITY_MINOR=0
export TF_FORCE_GPU_ALLOW_GROWTH=true XLA_FLAGS="--xla_gpu_cuda_data_dir=$softgpu/cuda
	--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
export TF_CPP_MIN_LOG_LEVEL=0 SOFTGPU_MEMORY=1536M SPILLWAY="$spillway"
total_mib=1536 program="python3 $here/tensorflow_trains.py eager compiled"

# told NAME COMMAND...: its output without the tool's lines; the rest is in $scratch/NAME.err
told() {
	name=$1
	shift
	"$@" >"$scratch/$name.out" 2>"$scratch/$name.err" ||
		fail "$name: $(tail -n 20 "$scratch/$name.out" "$scratch/$name.err")"
	sed -n 's/\(.* weights=[^ ]*\) .*/\1/p' "$scratch/$name.out" >"$scratch/$name"
	[ -s "$scratch/$name" ] || fail "$name has printed no weights"
	grep -o 'with [0-9]* MB memory' "$scratch/$name.err" | head -n 1 >"$scratch/$name.total"
}

# within NAME MIB OPTION...: a job with that limit
within() {
	job=$1 mib=$2
	shift 2
	# shellcheck disable=SC2086 # its words
	told "$job" "$spillway" run --name "$job" --memory "${mib}MiB" --reported limit+host \
		--host-memory $((total_mib - mib))MiB "$@" $program
}

# weigh NAME: it ended as the direct run did, was told the same total, and was refused nothing.
weigh() {
	same "$1: its total" "$(cat "$scratch/direct.total")" "$(cat "$scratch/$1.total")"
	same "$1: refusals" 0 "$(counter "$1" refusals)"
	if [ -z "$tolerance" ]; then
		same "$1" "$(cat "$scratch/direct")" "$(cat "$scratch/$1")"
	else
		near "$1"
	fi
}

# near NAME: its losses are within $tolerance of the direct run's.
near() {
	paste -d ' ' "$scratch/direct" "$scratch/$1" | tr ' ' '\n' | sed -n 's/^losses=//p' | tr ',' ' ' |
		awk -v bound="$tolerance" 'NR % 2 { for (i = 1; i <= NF; i++) wanted[i] = $i; next }
			{ for (i = 1; i <= NF; i++) { off = $i - wanted[i]; if (off < 0) off = -off
				if (off > bound * (1 + wanted[i])) exit 1 } }' ||
		fail "$1: losses beyond $tolerance: $(cat "$scratch/direct" "$scratch/$1")"
}

# Twice, each on a machine of its own.
# shellcheck disable=SC2086 # its words
(SOFTGPU_STATE_DIR=$scratch/other && told again $program) &
# shellcheck disable=SC2086 # its words
told direct $program
wait $! || fail "the second direct run: $(cat "$scratch/again.err")"
tolerance=
if ! cmp -s "$scratch/direct" "$scratch/again"; then
	tolerance=0.0001
	echo "TensorFlow's own two direct runs differ: losses within $tolerance are compared, no weights"
fi
peak=$(sed -n 's/.*peak=\([0-9]*\)MiB.*/\1/p' "$scratch/direct.out" | sort -n | tail -n 1)
cat "$scratch/direct.out"

within half $((peak / 2))
weigh half
within quarter $((peak / 4)) --share 50
weigh quarter
for job in half quarter; do
	[ "$(counter $job host_peak)" -gt 0 ] || fail "$job has had nothing on the host"
done
schedule=0
while [ $schedule -lt "${SCHEDULES:-1}" ]; do
	schedule=$((schedule + 1))
	# shellcheck disable=SC2086 # its words
	told changing-$schedule $here/schedule.py changing-$schedule "$peak" $program
	grep 'seed=' "$scratch/changing-$schedule.out"
	weigh changing-$schedule
done

# One refusal, by a count: TensorFlow asks again, as core/budget/README.md has it.
export SPILLWAY_SPILL_AFTER=1
program="python3 $here/tensorflow_trains.py eager"
within once $((peak / 2)) --quiet
same "once: refusals" 1 "$(counter once refusals)"
[ -n "$tolerance" ] || same "once" "$(head -n 1 "$scratch/direct")" "$(cat "$scratch/once")"
