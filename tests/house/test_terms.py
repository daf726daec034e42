#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A device's settings are read as terms and in no other way (core/budget/terms.h). No other code reads
the settings that are published in the device. A function that has terms, its own or given, takes
none again, and calls no function that takes them.

test_terms.py [ROOT]
"""

import glob
import os
import re
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
READERS = {"core/budget/terms.c", "core/budget/device.c"}  # who offers them; who writes them
TAKES = re.compile(r"\bterms_(of|take)\(")
HAS = re.compile(r"\b(\w+\.|\w+->)?terms\b|\bstruct terms\b")
wrong = []
taking = {}  # {function: file} of those that take terms
bodies = {}  # {(file, function): (parameters, body)}


def code(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", " ", file.read(), flags=re.S)


for top in ("core", "shim"):
    for path in sorted(glob.glob(os.path.join(root, top, "**/*.[ch]"), recursive=True)):
        name = os.path.relpath(path, root)
        text = code(path)
        if name not in READERS and re.search(r"\bdevice(\[\w+\])?(->|\.)settings\b|\bsettings\.(word|turn)\b", text):
            wrong.append(f"{name} reads a device's settings; it is to take terms, or to be given them")
        if name == "core/budget/terms.c":
            continue
        for found in re.finditer(r"^[a-z][^\n;{}]*?\b(\w+)\(([^;{}]*)\)\s*\{(.*?)^\}", text, re.M | re.S):
            function, parameters, body = found.groups()
            bodies[name, function] = parameters, body
            if TAKES.search(body):
                taking[function] = name

for (name, function), (parameters, body) in sorted(bodies.items()):
    given = bool(re.search(r"\bconst struct terms \*", parameters))
    takes = len(TAKES.findall(body))
    if given and takes or takes > 1:
        wrong.append(f"{name}: {function}() takes terms again")
    if given or takes:
        for other in sorted(set(re.findall(r"\b(\w+)\(", body)) & taking.keys() - {function}):
            if taking[other] == name or not re.search(rf"^static[^\n;]*\b{other}\(", code(os.path.join(root, taking[other])), re.M):
                wrong.append(f"{name}: {function}() has terms, and calls {other}() of {taking[other]}, which takes its own")

if len(taking) < 10:
    wrong.append(f"only {len(taking)} functions were found that take terms")
print("\n".join(wrong))
print(f"{len(bodies)} functions, {len(taking)} take terms: {len(wrong)} lines of what is wrong")
sys.exit(bool(wrong))
