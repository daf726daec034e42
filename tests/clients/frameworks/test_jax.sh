#!/bin/sh
# JAX from PyPI, unmodified, with none of NVIDIA's wheels: `spillway run --softgpu python3` is all
# that is typed. A network of dense layers, a transformer of Flax's, in fp32 and bf16, and a model
# of Keras with attention judge.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/jax" ] || skip "no JAX: make frameworks"
unset LD_LIBRARY_PATH
# What is compiled once serves all runs.
export JAX_COMPILATION_CACHE_DIR="$scratch/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
member "JAX, Flax, Keras" "$(version jax), $(version flax), $(version keras)" \
	"trains an MLP, a transformer (fp32, bf16), layers of Keras"
program="python3 $here/jax_trains.py ${WAYS:-mlp fp32 bf16 keras}"
judge
