#!/bin/sh
# SPDX-License-Identifier: MIT
# JAX from PyPI, unmodified, with none of NVIDIA's wheels: `spillway run --softgpu python3` is all
# that is typed. A network of dense layers, a transformer of Flax's, in fp32 and bf16, and a model
# of Keras with attention judge.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/jax" ] || skip "no JAX: make frameworks"
# What is compiled once serves all runs.
export JAX_COMPILATION_CACHE_DIR="$scratch/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
member "JAX, Flax, Keras" "$(version jax), $(version flax), $(version keras)" \
	"trains an MLP, a transformer (fp32, bf16), layers of Keras"
program="python3 $here/jax_trains.py ${WAYS:-mlp fp32 bf16 keras}"
judge

# Products by cuBLAS, where the user's flag asks XLA for them. Without graphs each launch is traced.
export XLA_FLAGS="--xla_gpu_gemm_rewrite_size_threshold=100 --xla_gpu_enable_command_buffer="
program="python3 $here/jax_trains.py mlp:2"
# shellcheck disable=SC2086 # its words
SOFTGPU_TRACE=$scratch/launches told direct directly $program
grep -q product_f32_f32 "$scratch/launches" || fail "XLA has asked cuBLAS for no product: $(head "$scratch/launches")"
within dots $((16 << 10))
weigh dots
unset XLA_FLAGS

# Its steps: those of the first training are counted and timed as it does. Those of the second are
# too few to be found, but for some, so that the number is said to be of steps that were seen.
printf '[gpu]\nsteps = on\n' >"$scratch/on.ini"
MIB=2 SPILLWAY_CONFIG=$scratch/on.ini told steps "$spillway" run --softgpu --name steps \
	python3 $here/jax_trains.py mlp:500 fp32:100
seen=$(counter steps steps)
[ "$seen" -ge 494 ] && [ "$seen" -le 606 ] || fail "$seen steps of 600: $(cat "$scratch/steps.err")"
grep -q "; $seen steps seen, of " "$scratch/steps.err" || fail "no word of others: $(cat "$scratch/steps.err")"
awk -v ms="$(sed -n 's/^mlp .* step=\(.*\)ms/\1/p' "$scratch/steps.out")" -v ns="$(counter steps step_ns)" \
	'BEGIN { exit !(ns > ms * 1e6 * 0.6 && ns < ms * 1e6 * 1.7) }' ||
	fail "a step of $(counter steps step_ns) ns: $(cat "$scratch/steps.out")"

# One refusal, by a count: of three quarters of the total XLA asks for nine tenths, which it has for
# good, as core/budget/README.md has it. Where XLA takes its part at once, `auto` tells the limit.
export XLA_PYTHON_CLIENT_PREALLOCATE=true SPILLWAY_SPILL_AFTER=1 MIB=2
program="python3 $here/jax_trains.py mlp:2"
within once $((64 << 10)) --quiet --reported-memory limit+host
same "once: refusals" 1 "$(counter once refusals)"
same "once: its region, in blocks of 2 MiB" 519 $(($(counter once host_peak) >> 21))
