#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds CONFIG_MODULE_KEYS of core/config/config.h against the code: a key of [gpu] that modules alone read has a row there, each
row names a module that reads the key, and so it does in the order of the names."""

import glob
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
with open("core/config/config.h", encoding="utf-8") as file:
    text = file.read()


def table(name):
    """Returns the rows of an X-macro's definition: lists of their arguments."""
    body = re.search(rf"#define {name}\(X\)((?:[^\n]*\\\n)*[^\n]*)", text).group(1)
    return [re.split(r"\s*,\s*", row)[:2] for row in re.findall(r"X\(([^)]*)", body)]


wrong = []
rows = {key.strip('"'): module.strip('"') for key, module in table("CONFIG_MODULE_KEYS")}
keys = [row[0] for row in table("CONFIG_GPU_KEYS")]
readers = {}
for path in glob.glob("core/**/*.[ch]", recursive=True) + glob.glob("shim/*.[ch]"):
    if path.startswith("core/config/"):
        continue
    with open(path, encoding="utf-8") as file:
        code = file.read()
    parts = path.split("/")
    part = parts[2] if path.startswith("core/modules/") else "kernel"
    for key in re.findall(r"settings(?:\.|->)(\w+)", code):
        readers.setdefault(key, set()).add(part)
    for key, call in (("region", "->region_minor"), ("reserve", "config_reserve(")):
        if call in code:
            readers.setdefault(key, set()).add(part)
if len(readers) < 10:
    wrong.append(f"only {sorted(readers)} are read: nothing is known")
for key in keys + ["region", "reserve"]:
    by = readers.get(key, set())
    if by and "kernel" not in by and rows.get(key) not in by:
        wrong.append(f"CONFIG_MODULE_KEYS lacks {key}, which {' and '.join(sorted(by))} alone read")
for key, module in rows.items():
    if module not in readers.get(key, set()):
        wrong.append(f"CONFIG_MODULE_KEYS: {module} does not read {key}")
if list(rows) != sorted(rows):
    wrong.append("CONFIG_MODULE_KEYS: the rows are not in order")
print("\n".join(wrong))
sys.exit(bool(wrong))
