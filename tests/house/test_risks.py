#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds tests/gpu/RISKS.md against the tree. Each test, check and question it names exists. Each row
names a test or the reason for having none. An end-to-end test runs each trait of the software GPU,
and each switch that it names, under the shim."""

import fnmatch
import glob
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
TABLE = "tests/gpu/RISKS.md"
wrong = []


def text_of(*patterns):
    text = ""
    for pattern in patterns:
        for name in sorted(glob.glob(pattern)):
            with open(name) as file:
                text += file.read()
    return text


tests = {os.path.basename(name) for name in glob.glob("tests/**/*", recursive=True) if os.path.isfile(name)}
questions = set(re.findall(r'"([a-z0-9_]+)"', text_of("tests/gpu/questions/*.c")))
rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text_of(TABLE).splitlines() if line.startswith("| ")]
rows = [row for row in rows if row[0].isdigit()]
if [int(row[0]) for row in rows] != list(range(1, 23)):
    wrong.append(f"{TABLE}: not a row for each of the 22")
run = text_of("tests/e2e/test_*.sh")
for number, _, switches, _, test, question in rows:
    named = re.findall(r"`([^`]+)`", test)
    if not named and not re.match("none: .", test):
        wrong.append(f"{TABLE}: {number}: no test, and no reason")
    wrong += [f"{TABLE}: {number}: {name} is no test" for name in named if not {name, name + ".c"} & tests]
    wrong += [f"{TABLE}: {number}: {name}: no end-to-end test runs it" for name in re.findall(r"`(SOFTGPU_[^`]+)`", switches)
              if not re.search(rf"\b{name}(\b|=)", run)]
    for name in re.findall(r"`([^`]+)`", question):
        if not fnmatch.filter(questions, name) and name not in tests and not re.search(r"[A-Z]", name):
            wrong.append(f"{TABLE}: {number}: {name} is no question")

traits = re.findall(r'\{"([a-z-]+)", &settings\.traits\.', text_of("tests/softgpu/config.c"))
wrong += [f"tests/softgpu/config.c: {trait}: no end-to-end test runs it" for trait in traits
          if not re.search(rf"(SOFTGPU_TRAITS=[a-z,-]*{trait}\b|^for trait in [a-z -]*{trait}\b)", run, re.M)]
if len(traits) < 8:
    wrong.append("tests/softgpu/config.c: its traits are not found")
print("\n".join(wrong))
sys.exit(bool(wrong))
