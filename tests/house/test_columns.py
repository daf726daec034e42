#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No line of a comment is longer than 100 columns, in code and scripts of core, shim, tools, tests and conf. (Of code
itself clang-format decides.)

test_columns.py [ROOT]
"""

import os
import re
import sys

COLUMNS = 100
C = (".c", ".h", ".S", ".cu", ".def")
HASH = (".sh", ".py", ".mk", ".awk", ".ini", ".service", ".yaml", ".conf")
LITERAL_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def lines_of_comments(text, is_c):
    """Returns the numbers of the lines on which there is a comment; of scripts, those which are nothing else."""
    if not is_c:
        return [number for number, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("#")]
    numbers = []
    for found in LITERAL_OR_COMMENT.finditer(text):
        if found.group().startswith("/"):
            first = text.count("\n", 0, found.start()) + 1
            numbers += range(first, first + found.group().count("\n") + 1)
    return numbers


def too_long(text, is_c):
    """Returns [(number, columns)] of the lines with comments that are too long, tabs being eight wide."""
    lines = text.split("\n")
    return [(number, len(lines[number - 1].expandtabs(8))) for number in sorted(set(lines_of_comments(text, is_c)))
            if len(lines[number - 1].expandtabs(8)) > COLUMNS]


def kind_of(path):
    """Returns whether a file is C (True), has comments that begin with # (False), or neither (None)."""
    kind = os.path.splitext(path)[1]
    if kind in C:
        return True
    if kind in HASH or os.path.basename(path) == "Makefile":
        return False
    if kind:
        return None
    with open(path, "rb") as file:
        return False if file.read(2) == b"#!" else None


def self_check():
    """Ends the test where it would not find what it is for."""
    long = "x" * 95
    for text, is_c, found in ((f"/* {long} */", True, 1), (f"/*\n\t{long}\n*/", True, 1), (f'f("/* {long}");', True, 0),
                              (f"int a; // {long}", True, 1), (f"\t# {long}", False, 1), (f"echo '#' {long}", False, 0)):
        if len(too_long(text, is_c)) != found:
            sys.exit(f"this test does not work: {text!r}")


def main():
    self_check()
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    paths = [os.path.join(root, "Makefile")]
    for top in ("core", "shim", "tools", "tests", "conf"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            paths += [os.path.join(folder, name) for name in names]
    looked_at, wrong = 0, []
    for path in sorted(paths):
        is_c = kind_of(path)
        if is_c is None:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        looked_at += 1
        wrong += [f"{os.path.relpath(path, root)}:{number}: {columns} columns" for number, columns in too_long(text, is_c)]
    if looked_at < 500:
        wrong.append(f"only {looked_at} files were found")
    print("\n".join(wrong))
    print(f"{looked_at} files: {len(wrong)} lines of what is wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
