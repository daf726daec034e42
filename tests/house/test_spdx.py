#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each file names its licence in a line of its own: the first line, or the second below a line that a program reads.
REUSE.toml names the files that have no comments.

test_spdx.py [--add] [ROOT]: --add writes the missing lines.
"""

import os
import re
import sys

import house

try:
    import tomllib
except ImportError:
    print("Python 3.11 or newer is needed")
    sys.exit(77)

LINE = "SPDX-License-" + "Identifier: MIT"
C = (".S", ".c", ".cu", ".def", ".h", ".in", ".map")
# Lines that stay the first: of a script, of a completion, of a page's metadata. A man page has its
# title there.
FIRST = re.compile(r"#!|#compdef |---$")


def without_comments(root):
    """Returns an expression for the paths that REUSE.toml gives a licence."""
    with open(os.path.join(root, "REUSE.toml"), "rb") as file:
        tables = tomllib.load(file)["annotations"]
    globs = [glob for table in tables if "SPDX-License-Identifier" in table
             for glob in ([table["path"]] if isinstance(table["path"], str) else table["path"])]
    as_expression = {"**": ".*", "*": "[^/]*"}
    return re.compile("|".join("".join(as_expression.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", glob))
                               for glob in globs))


def line_of(path, lines):
    """Returns the line that names the licence in this file, and its index."""
    kind = os.path.splitext(path)[1]
    place = 1 if kind == ".scd" or lines and FIRST.match(lines[0]) else 0
    if kind in C:
        return f"/* {LINE} */", place
    if kind == ".scd":
        return f"; {LINE}", place
    if kind in (".md", ".html") and not place:
        return f"<!-- {LINE} -->", place
    return f"# {LINE}", place


def self_check():
    """Ends the test where it would not find what it is for."""
    for path, first, line, place in (("a.c", "int a;", f"/* {LINE} */", 0), ("a", "#!/bin/sh", f"# {LINE}", 1),
                                     ("a.md", "# A", f"<!-- {LINE} -->", 0), ("a.md", "---", f"# {LINE}", 1),
                                     ("a.1.scd", "a(1)", f"; {LINE}", 1)):
        if line_of(path, [first]) != (line, place):
            sys.exit(f"this test does not work: {path}: {first}")


def main():
    self_check()
    add = "--add" in sys.argv
    roots = [word for word in sys.argv[1:] if word != "--add"]
    root = roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    excepted = without_comments(root)
    looked_at, wrong = 0, 0
    for path in house.all_files(root):
        if excepted.fullmatch(path) or path.startswith("LICENSE"):
            continue
        looked_at += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        line, place = line_of(path, lines)
        if lines[place:place + 1] == [line]:
            continue
        if add:
            lines.insert(place, line)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
        else:
            wrong += 1
            print(f"{path}:{place + 1}: expected '{line}' (tests/house/test_spdx.py --add writes it)")
    if looked_at < 500:
        sys.exit(f"only {looked_at} files were found")
    print(f"{looked_at} files: {wrong} without the line")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
