#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds tests/house/rooms_of_tests and tests/quiet against the tests there are. Each test concerns a
room, each room has tests, and each line is about a test."""

import fnmatch
import glob
import importlib.machinery
import importlib.util
import os
import sys

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
os.chdir(root)
sys.path.insert(0, "tests/house")
import house

loader = importlib.machinery.SourceFileLoader("tests_of", "tests/house/tests_of")
tests_of = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_of", loader))
loader.exec_module(tests_of)

names = []
for kind in ("test_*.sh", "test_*.py", "long_*.sh", "test_*.c"):
    for path in glob.glob(f"tests/**/{kind}", recursive=True):
        name = os.path.relpath(path, "tests")
        names.append(name[:-2] if name.endswith(".c") else name)
rooms = list(house.rooms("."))
wrong = [f"tests/{name} concerns no room" for name in names if not tests_of.rooms_of(name)]
wrong += [f"{room} has no tests" for room in rooms if not any(tests_of.concerns(room, name) for name in names)]
for pattern, listed in tests_of.lines():
    if not fnmatch.filter(names, pattern):
        wrong.append(f"{tests_of.TABLE}: {pattern} is no test")
    wrong += [f"{tests_of.TABLE}: {pattern}: {room} is no room" for room in (written.rstrip("?") for written in listed)
              if not any(other == room or room.endswith("/") and other.startswith(room) for other in rooms)
              and not (room.startswith("tests/") and os.path.isdir(room))]
with open("tests/quiet") as file:
    quiet = [line.split("#")[0].strip() for line in file]
wrong += [f"tests/quiet: {name} is no test" for name in quiet if name and name not in names]
print("\n".join(wrong))
sys.exit(bool(wrong))
