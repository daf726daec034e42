#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file is a concept: core and shim have at most FILES_MOST files, and at most ONE_USER_MOST percent of the functions
that files give to other files have one user.

Files are .c, .h and .S below core and shim. A function counts where an object of core or shim defines it for others
(nm: T or W) and another object of core, shim or tools refers to it. Its users are those objects; tests are none. For
example, of 1,200 such functions 750 with one user are 62.5 %. What the shim exports, programs and tools/slurm, which
is built where Slurm is, do not count. There is no rule for the length of a file.

FILES_MOST is the bar. ONE_USER_MOST is the figure that was reached (65.5), rounded up; the bar is 55. It may only fall.
"""

import glob
import os
import re
import subprocess
import sys

BUILD = os.environ.get("BUILD", "build")
FILES_MOST = 400
ONE_USER_MOST = 66.0


def objects():
    """Returns {object: its source} of core, shim and tools, of those whose source is there."""
    found = {}
    for top in ("core", "shim", "tools"):
        for path in glob.glob(f"{BUILD}/{top}/**/*.o", recursive=True):
            source = os.path.relpath(path, BUILD)[:-2]
            for kind in (".c", ".S"):
                if os.path.exists(source + kind) and not source.startswith(("tools/slurm/", "shim/probe/")):
                    found[path] = source + kind
    return found


def users_of_functions():
    """Returns {(file, function): the files that use it} of the functions of core and shim that other files use."""
    with open(f"{BUILD}/shim/exports.map") as exports:
        exported = set(re.findall(r"\w+", exports.read().split("local:")[0]))
    defined, wanted = {}, {}
    sources = objects()
    for line in subprocess.check_output(["nm", "-A", *sources], text=True).splitlines():
        unit, rest = line.split(":", 1)
        kind, symbol = rest.split()[-2:]
        if kind in "Uw":
            wanted.setdefault(symbol, set()).add(sources[unit])
        elif kind in "TW" and sources[unit].startswith(("core/", "shim/")) and sources[unit].endswith(".c"):
            defined[symbol] = sources[unit]
    return {(file, symbol): wanted[symbol] - {file} for symbol, file in defined.items()
            if symbol not in exported and wanted.get(symbol, set()) - {file}}


def main():
    if "-" in os.path.basename(BUILD):
        print("a build with a sanitizer has checks that are functions of their own")
        return 77
    files = [path for top in ("core", "shim") for path in glob.glob(f"{top}/**/*", recursive=True)
             if path.endswith((".c", ".h", ".S"))]
    users = users_of_functions()
    if len(users) < 500 or len(files) < 100:
        sys.exit(f"only {len(users)} functions and {len(files)} files in {BUILD}: nothing is known")
    one = sum(len(of) == 1 for of in users.values())
    percent = 100 * one / len(users)
    print(f"{len(files)} files of core and shim, at most {FILES_MOST}")
    print(f"{one} of {len(users)} external functions have one user: {percent:.1f} %, at most {ONE_USER_MOST} (bar 55)")
    return len(files) > FILES_MOST or percent > ONE_USER_MOST


if __name__ == "__main__":
    sys.exit(main())
