#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The glossary in spillway(7) has at most 40 terms, each once and with its meaning. No source or
document has a word of tests/house/retired.

test_words.py [ROOT]
"""

import os
import re
import sys

import house

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
os.chdir(root)
wrong = []

with open("tools/man/spillway.7.scd", encoding="utf-8") as file:
    page = file.read()
section = re.search(r"^# GLOSSARY$(.*?)^# ", page, re.M | re.S)
entries = re.findall(r"^((?:_[^_\n]+_(?:, )?)+)\n(\t?)", section.group(1) if section else "", re.M)
terms = [term for heading, _ in entries for term in re.findall(r"_([^_]+)_", heading)]
wrong += [f"spillway(7): no meaning of {heading}" for heading, tab in entries if not tab]
wrong += [f"spillway(7): {term} stands twice" for term in sorted(set(terms)) if terms.count(term) > 1]
if not 20 <= len(terms) <= 40:
    wrong.append(f"spillway(7): {len(terms)} terms in the glossary, expected at most 40")

retired = []
with open("tests/house/retired", encoding="utf-8") as file:
    for line in file:
        row = re.match(r"(\S.*?) -> (.*?)(?: in ((?:\S+/\S+ ?)+))?(?: below (\S+/\S*))?$", line)
        if row and not line.startswith("#"):
            retired.append((re.compile(rf"(?<![A-Za-z])(?:{row.group(1)})(?![a-z])", re.I), row.group(2), (row.group(3) or "").split(), row.group(4) or ""))
OURS = ("tests/house/retired", "tests/house/words_of_messages", "tests/house/test_words.py", "CHANGELOG.md")
seen = 0
for path in house.all_files("."):
    if path in OURS or path.startswith(("LICENSES/", "tests/softgpu/")) or not os.path.isfile(path):
        continue
    try:
        with open(path, encoding="utf-8") as file:
            text = path + "\n" + file.read()
    except UnicodeDecodeError:
        continue
    seen += 1
    if path.endswith(".scd"):  # there an underscore may stand behind a backslash
        text = text.replace("\\_", "_")
    for pattern, instead, may_be_in, below in retired:
        found = pattern.search(text) if path.startswith(below) else None
        if found and path not in may_be_in:
            number = text.count("\n", 0, found.start())
            wrong.append(f"{path}:{number}: {found.group(0)}: expected {instead}")
if seen < 1000 or len(retired) < 5:
    wrong.append(f"only {seen} files and {len(retired)} retired words were looked at")
print("\n".join(wrong))
print(f"{len(terms)} terms, {len(retired)} retired words, {seen} files: {len(wrong)} of what is wrong")
sys.exit(bool(wrong))
