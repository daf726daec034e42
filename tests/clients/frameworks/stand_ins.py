#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stand_ins.py OUT LIBRARY...: makes the libraries that LIBRARY... want and that are nowhere here.

A wheel of a framework wants NVIDIA's libraries at its start, a gigabyte and more, and calls few of
them. PyTorch's name them as needed, and leave functions undefined. TensorFlow's opens them by name
when it starts, and has the functions' names as texts. For each library that is wanted and not among
LIBRARY... this makes one of that name in OUT, from the functions that LIBRARY... name. A function of
a stand-in does nothing: it names itself once on stderr and answers its library's own status for
"not supported". Where a library has none, or the function answers no status, the process ends
instead (SIGABRT).

HAVE (environment, paths with colons between) names folders whose libraries are not made.
OPENED (environment, names with spaces between) names libraries that LIBRARY... open by name.
"""
import mmap
import os
import re
import subprocess
import sys
import tempfile

# By soname without version: how its functions begin, and what they answer; None: the process ends.
LIBRARIES = {
    "libcublas": (r"cublas(?!Lt)", 15),  # CUBLAS_STATUS_NOT_SUPPORTED
    "libcublasLt": (r"cublasLt", 15),
    "libcudnn": (r"cudnn", 3000),  # CUDNN_STATUS_NOT_SUPPORTED
    "libcufft": (r"cufft", 16),  # CUFFT_NOT_SUPPORTED
    "libcufile": (r"cuFile", None),
    "libcupti": (r"cupti", 27),  # CUPTI_ERROR_NOT_SUPPORTED
    "libnvrtc": (r"nvrtc", None),
    "libcusolver": (r"cusolver", 9),  # CUSOLVER_STATUS_NOT_SUPPORTED
    "libcusparse": (r"cusparse(?!Lt)", 10),  # CUSPARSE_STATUS_NOT_SUPPORTED
    "libcusparseLt": (r"cusparseLt", 10),
    "libnccl": (r"nccl", 3),  # ncclInternalError: it has no "not supported"
    "libnvshmem_host": (r"nvshmem", None),
}
# XLA asks these of cuDNN before it compiles any program. They succeed without any work to do.
ANSWERED = {
    "cudnnCreate": ("int ", "void **handle", "static char it;\n\n\t*handle = &it;\n\treturn 0"),
    "cudnnDestroy": ("int ", "void *handle", "return 0"),
    "cudnnSetStream": ("int ", "void *handle, void *stream", "return 0"),
    "cudnnGetProperty": ("int ", "int kind, int *value",
                         "*value = kind == 0 ? 9 : kind == 1 ? 10 : 0;\n\treturn 0"),
    "cudnnGetVersion": ("size_t ", "void", "return 91000"),
    "cudnnGetCudartVersion": ("size_t ", "void", "return 12090"),
}
# These answer a text, which says the same.
TEXT = re.compile(r"(Get\w*String|GetErrorName|GetLastError|GetStatusName)$")

HEAD = """#include <stdio.h>
#include <stdlib.h>

static void say(const char *name, int *is_said)
{
	if (!__atomic_exchange_n(is_said, 1, __ATOMIC_RELAXED) && !getenv("SOFTGPU_QUIET"))
		fprintf(stderr, "softgpu: %s is not supported\\n", name);
}
"""
BODY = """
%(type)s%(name)s(void)
{
	static int is_said;

	say("%(name)s", &is_said);
	%(answer)s;
}
"""


def readelf(what, path):
    return subprocess.run(["readelf", "-W", what, path], check=True, capture_output=True,
                          text=True).stdout


def base(soname):
    return re.match(r"[^.]+", soname)[0]


def answer(name, status):
    if TEXT.search(name):
        return "const char *", 'return "not supported by the software GPU"'
    if status is None:
        return "int ", "abort()"
    return "int ", f"return {status}"


def texts(path):
    """The functions of NVIDIA's libraries whose names are texts in PATH."""
    begins = "|".join(begin for begin, _ in LIBRARIES.values()).encode()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {(found[1].decode(), "")
                for found in re.finditer(rb"\0((?:%s)[A-Z]\w*)(?=\0)" % begins, content)}


def wanted(paths):
    """The sonames that PATHS want, and the name and version of each function."""
    sonames = set(os.environ.get("OPENED", "").split())
    functions = set()
    for path in paths:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path))
        if not any(base(soname) in LIBRARIES for soname in needed):
            functions.update(texts(path))
        sonames.update(needed)
        for line in readelf("--dyn-syms", path).splitlines():
            fields = line.split()
            if len(fields) > 7 and fields[6] == "UND":
                name, _, version = fields[7].partition("@")
                functions.add((name, version.lstrip("@")))
    return sonames, functions


def make(out, soname, functions):
    _, status = LIBRARIES[base(soname)]
    with tempfile.TemporaryDirectory() as scratch:
        source, script = os.path.join(scratch, "made.c"), os.path.join(scratch, "made.map")
        names = sorted({name for name, _ in functions})
        with open(source, "w", encoding="ascii") as file:
            file.write(HEAD)
            for name in names:
                if name in ANSWERED:
                    file.write("\n%s%s(%s)\n{\n\t%s;\n}\n" % (
                        ANSWERED[name][0], name, ANSWERED[name][1], ANSWERED[name][2]))
                    continue
                kind, does = answer(name, status)
                file.write(BODY % {"type": kind, "name": name, "answer": does})
        versions = sorted({version for _, version in functions if version})
        with open(script, "w", encoding="ascii") as file:
            for version in versions:
                members = "; ".join(sorted(n for n, v in functions if v == version))
                file.write(f"{version} {{ global: {members}; }};\n")
        command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-w", f"-Wl,-soname,{soname}",
                   "-o", os.path.join(out, soname), source]
        subprocess.run(command + ([f"-Wl,--version-script={script}"] if versions else []), check=True)
    return len(names)


def main():
    out, paths = sys.argv[1], sys.argv[2:]
    have = {os.path.basename(path) for path in paths}
    for folder in filter(None, os.environ.get("HAVE", "").split(":")):
        have.update(os.listdir(folder))
    sonames, functions = wanted(paths)
    os.makedirs(out, exist_ok=True)
    for soname in sorted(sonames - have):
        if base(soname) not in LIBRARIES:
            continue
        begins = re.compile(LIBRARIES[base(soname)][0])
        mine = {(n, v) for n, v in functions if begins.match(n)}
        print(f"{soname} {make(out, soname, mine)}")


if __name__ == "__main__":
    main()
