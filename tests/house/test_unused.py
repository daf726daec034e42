#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every function that core/ or shim/ gives to other files is called by one of the product's.

A function to which no object of core, shim or tools refers is for tests alone, or unused: it goes,
or it is static. The shim's exports are for the program: its names are taken from the map that the
linker is given. Trampolines, which are assembly made of the list of entry points, refer to their
functions, and are themselves referred to by address."""

import glob
import os
import re
import subprocess
import sys

BUILD = os.environ.get("BUILD", "build")

# Tests leave the jobs that they have joined, which a process of the product does by its death.
LOOKED_AT = {"segment_leave"}


def objects():
    """Returns {object of the product: its source}, of those whose source is there."""
    found = {}
    for top in ("core", "shim", "tools"):
        for path in glob.glob(f"{BUILD}/{top}/**/*.o", recursive=True):
            source = os.path.relpath(path, BUILD)[:-2]
            for kind in (".c", ".S"):
                if os.path.exists(source + kind):
                    found[path] = source + kind
    return found


def main():
    if "-" in os.path.basename(BUILD):
        print("a build with a sanitizer has checks that only tests call")
        return 77
    with open(f"{BUILD}/shim/exports.map") as exports:
        exported = set(re.findall(r"\w+", exports.read().split("local:")[0]))
    defined, wanted = {}, set()
    sources = objects()
    for line in subprocess.check_output(["nm", "-A", *sources], text=True).splitlines():
        unit, rest = line.split(":", 1)
        kind, symbol = rest.split()[-2:]
        if kind in "Uw":
            wanted.add(symbol)
        elif kind in "TW" and sources[unit].endswith(".c") and not sources[unit].startswith(("tools/", "shim/probe/")):
            defined[symbol] = sources[unit]
    if len(defined) < 500 or "cuInit" not in exported:
        sys.exit(f"only {len(defined)} functions and {len(exported)} exported names in {BUILD}: nothing is known")
    unused = sorted((file, symbol) for symbol, file in defined.items()
                    if symbol not in wanted | exported | LOOKED_AT)
    for file, symbol in unused:
        print(f"{file}: {symbol}: no other file of the product calls it")
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
