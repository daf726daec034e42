#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the table of binary formats in core/state/README.md against the code. Each magic of core
stands in it and is defined once, where the table says. Each version is a constant of core.

test_formats.py [ROOT]
"""

import glob
import os
import re
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
os.chdir(root)
TABLE = "core/state/README.md"
MAGIC = re.compile(r'"(SPIL[A-Z]{4}|spillmem)"')
wrong, code = [], {}

for path in glob.glob("core/**/*.[ch]", recursive=True):
    with open(path, encoding="utf-8") as file:
        code[path] = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
with open(TABLE, encoding="utf-8") as file:
    rows = re.findall(r"^\|[^|]*\| `(.{8})` \| `(\w+)` \| `([\w/.]+)` \|", file.read(), re.M)
found = {}
for path, text in code.items():
    for magic in MAGIC.findall(text):
        found.setdefault(magic, []).append(path)
    defined = set(re.findall(r'#define \w*MAGIC\s+"([^"]{8})"', text))
    wrong += [f"{path}: {magic}: expected a define NAME_MAGIC" for magic in set(MAGIC.findall(text)) - defined]

wrong += [f"{path}: {magic} stands more than once" for magic, paths in found.items() if len(paths) > 1 for path in paths]
wrong += [f"{TABLE}: {magic} is missing" for magic in sorted(set(found) - {row[0] for row in rows})]
for magic, version, path in rows:
    if found.get(magic) != [path]:
        wrong.append(f"{TABLE}: {magic} in {path}: it is in {' '.join(found.get(magic, ['no file']))}")
    if not any(re.search(r"\b" + version + r" = \d+|#define " + version + r"\s+\d+", text) for text in code.values()):
        wrong.append(f"{TABLE}: {version} is no constant")
print("\n".join(wrong))
print(f"{len(rows)} formats: {len(wrong)} lines of what is wrong")
sys.exit(bool(wrong) or len(rows) < 4)
