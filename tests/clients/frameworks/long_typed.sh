#!/bin/sh
# SPDX-License-Identifier: MIT
# A user types `spillway run --softgpu --memory 24MiB python train.py` in an environment with the
# wheels alone, with no other option and no variable. It ends with the weights of a run without a
# limit. Then models of 100 MiB under 64 MiB: XLA and PyTorch's expandable segments take their
# memory by exportable cuMemCreate, and nothing is refused. It takes 16 minutes on two cores with a
# load of 25.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
triton_can_compile
unset SOFTGPU_MEMORY TRITON_LIBCUDA_PATH TRITON_DEFAULT_FP_FUSION PYTHONPATH
python3 -m venv --without-pip "$scratch/venv"
echo "$frameworks/packages" >"$scratch/venv/lib/$(ls "$scratch/venv/lib")/site-packages/wheels.pth"
python=$scratch/venv/bin/python

# typed NAME LIMIT PROGRAM...: without a limit and within it; was refused nothing, and spilled. Only
# the driver's own memory may have been above the limit: it is never refused.
typed() {
	job=$1 limit=$2
	shift 2
	told "$job-unlimited" "$spillway" run --softgpu --name "$job-unlimited" "$python" "$@"
	told "$job" "$spillway" run --softgpu --name "$job" --memory "$limit" "$python" "$@"
	same "$job: results" "$(cat "$scratch/$job-unlimited")" "$(cat "$scratch/$job")"
	same "$job: refusals" 0 "$(counter "$job" refusals)"
	[ "$(counter "$job" host_peak)" -gt 0 ] || fail "$job has had nothing on the host"
	[ $(($(counter "$job" device_peak) - $(counter "$job" driver_peak))) -le $((${limit%MiB} << 20)) ] ||
		fail "$job was above its limit: $(tail -n 1 "$scratch/$job.err")"
	tail -n 1 "$scratch/$job.err"
}
typed jax 24MiB $here/jax_trains.py fp32
typed keras 24MiB $here/tensorflow_trains.py compiled
typed torch 24MiB $here/torch_trains.py

# Models of 100 MiB on a device of 2 GiB.
export MIB=100 STEPS=2
typed jax-large 64MiB $here/jax_trains.py mlp
export PYTORCH_ALLOC_CONF=expandable_segments:True
typed torch-large 64MiB $here/torch_trains.py
said=$("$spillway" run --softgpu --name eager --memory 64MiB "$python" $here/torch_spills.py 64 six reuse pool 2>&1) ||
	fail "eager: $said"
same "eager: failures of the allocator" 0 "$(field ooms "$said")"
same "eager: refusals" 0 "$(counter eager refusals)"
[ "$(counter eager host_peak)" -gt 0 ] || fail "eager has had nothing on the host"
