#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the code against core/rooms. Each include and each symbol of an object goes to a room that may
be used. No files form a circle, by includes (a .c and its .h are one there) or by symbols. No room
of the kernel may use one of core/modules. Takes no exceptions.

TABLE: another table of rooms, as tests/softgpu/rooms. A line of it may name a file that is a room by itself, and within a
room its files may form circles.

test_layers.py [ROOT [BUILD [TABLE]]]
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import house

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, os.environ.get("BUILD", "build"))
table = sys.argv[3] if len(sys.argv) > 3 else "core/rooms"
wrong = []


def say_circles(edges, by, why):
    for circle in house.circles(edges):
        wrong.append(f"{len(circle)} files form a circle by {by}: {' '.join(circle)}")
        for file in circle:
            for other in sorted(set(edges[file]) & set(circle)):
                wrong.append(f"    {file} uses {why(file, other)} of {other}")


allowed = house.rooms(root, table)
for room, others in allowed.items():
    if house.in_kernel(room):
        wrong += [f"{table}: {room} is of the kernel and may not use {other}" for other in sorted(others)
                  if other.startswith("core/modules/")]
found = house.files(root, allowed, table)
for file, room in sorted(found.items()):
    if not room:
        wrong.append(f"{file}: its folder is no room of {table}")

included = house.includes(root, found)
for file, others in sorted(included.items()):
    for other in others:
        if found[file] and found[other] and found[other] not in allowed[found[file]]:
            wrong.append(f"{file} includes {other}: {found[file]} may not use {found[other]}")

linked = house.symbols(build, found)
if not linked:
    wrong.append(f"{build} holds no object of the house: build first")
for file, others in sorted(linked.items()):
    for other, names in sorted(others.items()):
        if found[file] and found[other] and found[other] not in allowed[found[file]]:
            wrong.append(f"{file} uses {' '.join(names)} of {other}: {found[file]} may not use {found[other]}")

if table == "core/rooms":
    stems = {}
    for file, others in included.items():
        stem = os.path.splitext(file)[0]
        stems.setdefault(stem, set()).update(s for s in (os.path.splitext(o)[0] for o in others) if s != stem)
    say_circles(stems, "includes", lambda file, other: "the header")
    say_circles(linked, "symbols", lambda file, other: " ".join(linked[file][other]))
else:
    say_circles({room: others - {room} for room, others in allowed.items()}, "the table", lambda room, other: "files")

print("\n".join(wrong))
print(f"{len(found)} files, {len(linked)} objects, {len(allowed)} rooms: {len(wrong)} lines of what is wrong")
sys.exit(bool(wrong))
