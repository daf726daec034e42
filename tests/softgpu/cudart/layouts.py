#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""layouts.py 11.8=DIR 12.9=DIR 13.0=DIR: prints layouts.def from the runtime's headers in DIR....

Each DIR holds cuda_runtime_api.h of that version. A structure is listed when the newer two versions
do not agree on its size or on the place of a field. The versions, oldest first, are the columns.
CC (environment) is a clang: it knows which structures and fields there are.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """/* SPDX-License-Identifier: MIT */
/*
 * Where the fields of the runtime's structures are, for each structure that differs between 12.9
 * and 13.0. layouts.py wrote this from the headers of PyPI's nvidia-cuda-runtime-cu11 11.8.89 and
 * nvidia-cuda-runtime-cu12 12.9.79, and of the CUDA toolkit 13.0. The offset of a field that a
 * version does not have is -1.
 *
 * STRUCTURE(name, size in 11.8, in 12.9, in 13.0)
 * FIELD(structure, name, offset and size in 11.8, in 12.9, in 13.0); GONE: the same, not in 13.0
 */"""


def run(command, source):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "layouts.c")
        with open(path, "w", encoding="ascii") as file:
            file.write(source)
        out = os.path.join(scratch, "layouts")
        said = subprocess.run([part.format(source=path, out=out) for part in command], check=True,
                              capture_output=True, text=True).stdout
        if os.path.exists(out):
            said = subprocess.run([out], check=True, capture_output=True, text=True).stdout
        return said


def layouts(folder):
    """The runtime's structures in FOLDER: {name: (size, {field: (offset, size)})}."""
    compiler = [os.environ.get("CC", "clang"), "-w", "-isystem", folder, "-idirafter",
                os.path.join(HERE, "compat")]
    head = "#include <cuda_runtime_api.h>\n#include <stddef.h>\n#include <stdio.h>\n"
    dump = run(compiler + ["-fsyntax-only", "-Xclang", "-fdump-record-layouts-complete", "{source}"],
               head)
    fields, name = {}, None
    for line in dump.splitlines():
        opened = re.match(r" *0 \| (?:struct (cuda\w+)$|\S)", line)
        field = re.match(r" *\d+ \|   \S.* (\w+)$", line)
        if opened:
            name = opened[1]
            fields.update({name: []} if name else {})
        elif field and name:
            fields[name].append(field[1])
    body = "".join(f'printf("{s} . 0 %zu\\n", sizeof(struct {s}));' + "".join(
        f'printf("{s} {f} %zu %zu\\n", offsetof(struct {s}, {f}), sizeof(((struct {s} *)0)->{f}));'
        for f in names) for s, names in fields.items() if not s.endswith("_st"))
    found = {}
    for line in run(compiler + ["-o", "{out}", "{source}"], f"{head}int main(void) {{ {body} }}"
                    ).splitlines():
        structure, field, offset, size = line.split()
        if field == ".":
            found[structure] = (int(size), {})
        else:
            found[structure][1][field] = (int(offset), int(size))
    return found


def main():
    versions = [layouts(argument.partition("=")[2]) for argument in sys.argv[1:]]
    older, newest = versions[-2], versions[-1]
    print(HEAD)
    for name in sorted(set(older) & set(newest)):
        if older[name] == newest[name]:
            continue
        columns = [version.get(name, (-1, {})) for version in versions]
        print(f"STRUCTURE({name}, {', '.join(str(size) for size, _ in columns)})")
        seen = dict.fromkeys(field for _, fields in reversed(columns) for field in fields)
        for field in seen:
            places = [fields.get(field, (-1, -1)) for _, fields in columns]
            row = ", ".join(f"{offset}, {size}" for offset, size in places)
            print(f"{'GONE' if places[-1][0] < 0 else 'FIELD'}({name}, {field}, {row})")


if __name__ == "__main__":
    main()
