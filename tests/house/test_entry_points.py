#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each function of the newest CUDA header that is written down (tools/dev/cuda-functions) has its rows; and `make
entry-points` adds those of a header that is newer still."""

import os
import shutil
import subprocess
import sys
import tempfile

TOOL = "tools/dev/entry-points"
FILES = [TOOL, "tools/dev/cuda-versions", "tools/dev/cuda-functions", "shim/entry_points.h", "tests/softgpu/entry_points.def",
         "tests/softgpu/config.h"]
HEADER = """typedef int CUresult;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cuInvented cuInvented_ptsz
static inline CUresult cuInventedInline(int a) { return a; }
#endif
CUresult cuInvented(int a);
CUresult cuMemAlloc_v9(int a);
"""


def run(*arguments):
    done = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


status, said = run("--check")
wrong = [] if status == 0 else [said]
with tempfile.TemporaryDirectory() as folder:
    for path in FILES:
        os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
        shutil.copy(path, os.path.join(folder, path))
    os.chdir(folder)
    os.mkdir("include")
    with open("include/cuda.h", "w") as file:
        file.write(HEADER)
    with open("include/cudaTypedefs.h", "w") as file:
        file.write("typedef CUresult (CUDAAPI *PFN_cuMemAlloc_v14010)(int a);\n")
    status, said = run("--include", "include", "--version", "14.2.7")
    for row in ("FUNCTION(cuMemAlloc_v9, alloc, passthrough)", "FUNCTION(cuInvented_ptsz, "):
        if status != 0 or row not in said:
            wrong.append(f"a new header: expected {row}, got {status}: {said}")
    with open("tests/softgpu/entry_points.def") as file:
        table = file.read()
    for row in ('X(cuInvented, "cuInvented", 14020, 0)', 'X(cuInvented_ptsz, "cuInvented", 14020, 1)',
                'X(cuMemAlloc_v9, "cuMemAlloc", 14010, 0)'):
        if row not in table:
            wrong.append(f"a new header: the software GPU lacks {row}")
    if "cuInventedInline" in table + said:
        wrong.append("a function that the header defines is taken for the driver's")
    subprocess.run(["sed", "-i", "/FUNCTION(cuInvented_ptsz,/d", "shim/entry_points.h"], check=True)
    status, said = run("--check")
    if status == 0 or "shim/entry_points.h: cuInvented_ptsz: no row" not in said:
        wrong.append(f"a row that is missing: {status}: {said}")
    os.chdir("/")
print("\n".join(wrong))
sys.exit(bool(wrong))
