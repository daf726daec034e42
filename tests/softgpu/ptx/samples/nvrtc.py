#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles a .cu to PTX with NVRTC: nvrtc.py LIBNVRTC INCLUDE ARCH IN.cu OUT.ptx"""
import ctypes, os, sys

library, include, arch, source, target = sys.argv[1:]
builtins = [f for f in os.listdir(os.path.dirname(library)) if f.startswith("libnvrtc-builtins")]
for name in builtins:
    ctypes.CDLL(os.path.join(os.path.dirname(library), name), ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(library)
program = ctypes.c_void_p()
with open(source, "rb") as f:
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), f.read(), os.path.basename(source).encode(), 0, None, None)
options = ["--gpu-architecture=" + arch.replace("sm_", "compute_"), "-I" + include,
           "-I" + os.path.dirname(os.path.abspath(source))]
status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
size = ctypes.c_size_t()
if status:
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    sys.exit(log.value.decode())
nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
ptx = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetPTX(program, ptx)
with open(target, "wb") as f:
    f.write(ptx.value)
