#!/bin/sh
# SPDX-License-Identifier: MIT
# `run --softgpu` generates a library because a wheel wants it. It answers its own status for "not
# supported", names each function once, and never succeeds. So do those that the software GPU
# brings. A function of a library without such a status ends the process.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh

cat >"$scratch/ask.py" <<'END'
import ctypes
for library, function in (
        ("libcublas.so.12", "cublasStrsm_v2"), ("libcublas.so.13", "cublasStrsm_v2"),
        ("libcublasLt.so.12", "cublasLtMatrixTransform"), ("libcudnn.so.9", "cudnnConvolutionForward"),
        ("libcufft.so.11", "cufftPlan1d"), ("libcufft.so.12", "cufftPlanMany"),
        ("libcusolver.so.11", "cusolverDnCreate"), ("libcusparse.so.12", "cusparseCreate"),
        ("libnccl.so.2", "ncclCommInitAll")):
    call = getattr(ctypes.CDLL(library), function)
    print(library, call(), call())
why = ctypes.CDLL("libnccl.so.2").ncclGetErrorString
why.restype = ctypes.c_char_p
print(why(3).decode(), flush=True)
ctypes.CDLL("libnvrtc.so.13").nvrtcCreateProgram()
print("nvrtcCreateProgram has returned")
END
"$spillway" run --softgpu --quiet python3 "$scratch/ask.py" >"$scratch/answers" 2>"$scratch/said" &&
	fail "no program ended at nvrtcCreateProgram"
same "answers" "libcublas.so.12 15 15
libcublas.so.13 15 15
libcublasLt.so.12 15 15
libcudnn.so.9 3000 3000
libcufft.so.11 16 16
libcufft.so.12 16 16
libcusolver.so.11 9 9
libcusparse.so.12 10 10
libnccl.so.2 3 3
not supported by the software GPU" "$(cat "$scratch/answers")"
same "functions that name themselves" 11 "$(grep -c '^softgpu: .* is not supported$' "$scratch/said")"
