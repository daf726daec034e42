#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds statements of documents about the house against the code. The table of rooms in core/README.md
agrees with core/rooms. Each README names files, folders and functions that there are. A walk's
functions are in the files beside them. Takes no exceptions.

test_documents.py [ROOT]
"""

import glob
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import house

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
os.chdir(root)
wrong = []

with open("core/README.md") as file:
    text = file.read()
listed = []
for row in re.findall(r"^\| (`[^|]*`) \|", text, re.M):
    listed += ["core/" + name.rstrip("/") for name in re.findall(r"`([^`]*/)`", row)]
rooms = [room for room in house.rooms(".") if room.startswith("core/")]
wrong += [f"core/README.md: no row for {room}" for room in rooms if room not in listed]
wrong += [f"core/README.md: a row for {room}, which is no room of core/rooms" for room in listed if room not in rooms]

# The walks: each step's functions are in the files that stand beside them.
for steps, places in re.findall(r"^\| ([^|]*\(\)[^|]*) \| ([^|]*) \|", text, re.M):
    beside = ""
    for place in re.findall(r"`([^`]+)`", places):
        for folder in ("core", "."):
            if os.path.exists(os.path.join(folder, place)):
                with open(os.path.join(folder, place)) as file:
                    beside += file.read()
    for name in re.findall(r"`(\w+)\(\)`", steps):
        if not re.search(rf"\b{name}\(", beside):
            wrong.append(f"core/README.md: {name}() is not in {places}")

texts, ours = [], set()
for top in ("core", "shim", "tools", "tests"):
    for folder, _, names in os.walk(top):
        if top in ("core", "shim"):
            ours.update(names)
        for name in names:
            if re.search(r"\.(c|h|S|sh|mk|py)$", name):
                with open(os.path.join(folder, name), errors="replace") as file:
                    texts.append(file.read())
code = "".join(texts)
functions = set(re.findall(r"\b([A-Za-z_]\w*)\(", code))
functions |= set(re.findall(r"\b(?:HOOK|GATED|FUNCTION)\((\w+)", code))

FILE = re.compile(r"^[\w.+-]+(/[\w.+-]+)*\.(c|h|S|sh|py|awk|mk|ini|map)$")
for document in glob.glob("core/**/README.md", recursive=True) + ["CONTRIBUTING.md"]:
    if not os.path.exists(document):
        continue
    with open(document) as file:
        words = re.findall(r"`([^`\n]+)`", file.read())
    near = [os.path.dirname(document), "core", "."]
    for word in sorted(set(words)):
        if FILE.match(word) or re.match(r"^(core|shim|tools|tests|conf)/[\w/.-]*$", word):
            here = any(os.path.exists(os.path.join(folder, word)) for folder in near)
            here = here or word in ours
            if not here and f"#include <{word}>" not in code:
                wrong.append(f"{document}: there is no {word}")
        called = re.match(r"^(\w+)\(\)?", word)
        if called and word.endswith(")") and called.group(1) not in functions:
            wrong.append(f"{document}: there is no function {word}")

print("\n".join(wrong))
sys.exit(bool(wrong))
