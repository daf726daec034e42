#!/bin/sh
# tinygrad trains on the software GPU by kernels that NVRTC compiles, alone and under limits.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh
. tests/clients/python/tinygrad.sh

export JIT=1 # in graphs
train cuda
same "device bytes held when it is over" 0 "$(device_bytes)"
