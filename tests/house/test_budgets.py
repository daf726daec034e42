#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Computes each figure that tests/house/budgets bounds, from sources and objects, and fails where one is above its bound.

The figures are printed, and written to BUILD/tests/budgets, which tests/run shows at its end. Each is a function below;
its docstring says how it is counted. Tests are no users, and programs of tools/slurm and shim/probe, which are not
everywhere built, are none either.

test_budgets.py [ROOT [BUILD [TABLE]]]
"""

import glob
import os
import re
import subprocess
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
os.chdir(root)
BUILD = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("BUILD", "build")
OURS = "tests/house/budgets"
TABLE = sys.argv[3] if len(sys.argv) > 3 else OURS
FILES_OF_CODE = (".c", ".h", ".S")
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.S)
wrong = []


def code_of(path):
    """Returns a file's text without its comments."""
    with open(path, encoding="utf-8") as file:
        return NOT_CODE.sub(lambda found: found.group(1) or " ", file.read())


def sources(*tops):
    return {path: code_of(path) for top in tops for path in sorted(glob.glob(f"{top}/**/*", recursive=True))
            if path.endswith(FILES_OF_CODE)}


def table():
    """Returns {budget: (bound, goal)} and {module: its paths}."""
    budgets, modules = {}, {}
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if len(words) == 4 and words[0] == "budget":
                budgets[words[1]] = float(words[2]), None if words[3] == "-" else float(words[3])
            elif len(words) >= 2 and words[0] == "module":
                modules.setdefault(words[1], []).extend(words[2:])
            elif words:
                sys.exit(f"{TABLE}: {line.strip()}: expected 'budget NAME BOUND GOAL' or 'module NAME PATH...'")
    return budgets, modules


BUDGETS, MODULES = table()
CODE = sources("core", "shim")
LINES = {path: sum(1 for line in text.split("\n") if line.strip()) for path, text in CODE.items()}


def module_of(path):
    """Returns the module that a file is part of: core/modules/NAME/, or what the table lists; None: the kernel."""
    for module, paths in MODULES.items():
        for listed in (f"core/modules/{module}/", *paths):
            if path.startswith(listed) if listed.endswith("/") else os.path.splitext(path)[0] == listed:
                return module
    return None


for module_name, listed_paths in MODULES.items():
    for listed_path in listed_paths:
        if not any(path.startswith(listed_path) if listed_path.endswith("/") else os.path.splitext(path)[0] == listed_path
                   for path in CODE):
            wrong.append(f"{TABLE}: module {module_name}: {listed_path} is no file or folder")


def symbols(folders):
    """Yields (source, kind, symbol) of the objects whose source is there."""
    units = {}
    for top in folders:
        for path in glob.glob(f"{BUILD}/{top}/**/*.o", recursive=True):
            source = os.path.relpath(path, BUILD)[:-2]
            units.update({path: source + kind for kind in (".c", ".S") if os.path.exists(source + kind)})
    if not units:
        return
    for line in subprocess.check_output(["nm", "-A", *units], text=True).splitlines():
        unit, rest = line.split(":", 1)
        kind, symbol = rest.split()[-2:]
        yield units[unit], kind, symbol


def external_functions():
    """Returns {function: (its file, the files that use it)} of what files of core and shim give to other files."""
    with open(f"{BUILD}/shim/exports.map", encoding="utf-8") as exports:
        exported = set(re.findall(r"\w+", exports.read().split("local:")[0]))
    defined, users = {}, {}
    for source, kind, symbol in symbols(("core", "shim", "tools")):
        if source.startswith(("tools/slurm/", "shim/probe/")):
            continue
        if kind in "Uw":
            users.setdefault(symbol, set()).add(source)
        elif kind in "TW" and source.startswith(("core/", "shim/")) and source.endswith(".c") and symbol not in exported:
            defined[symbol] = source
    return {symbol: (source, users.get(symbol, set()) - {source}) for symbol, source in defined.items()}


def lines():
    """code lines of core + shim: .c, .h and .S, without comments and blank lines"""
    return sum(LINES.values())


def lines_kernel():
    """code lines of them that are in no module"""
    return sum(count for path, count in LINES.items() if not module_of(path))


def lines_of(module):
    return sum(count for path, count in LINES.items() if module_of(path) == module)


def files():
    """files of core + shim"""
    return len(CODE)


def starts_of_threads():
    """Returns {file: how many threads it starts}; only core/base/thread.c calls pthread_create()."""
    for path, text in CODE.items():
        if re.search(r"\bpthread_create\(", text) and path not in ("core/base/thread.c", "core/base/glibc.h"):
            wrong.append(f"{path}: pthread_create(): threads are started by core/base/thread.h")
    return {path: len(re.findall(r"\bthread_start\(", text)) for path, text in CODE.items()
            if not path.startswith("core/base/thread.") and "thread_start(" in text}


def threads():
    """threads that the shim may start in a user's process: calls of thread_start()"""
    return sum(count for path, count in starts_of_threads().items() if module_of(path) != "ipc")


def threads_ipc():
    """threads more that serve other processes"""
    return sum(count for path, count in starts_of_threads().items() if module_of(path) == "ipc")


def locks():
    """ranks in the table of core/base/lock.h"""
    with open("core/base/lock.h", encoding="utf-8") as file:
        return len(re.findall(r"^\tX\((\w+),", file.read(), flags=re.M))


def formats():
    """binary formats: the different magics of core, 8 characters of a define NAME_MAGIC"""
    return len({found for path, text in CODE.items() for found in re.findall(r'#define \w*MAGIC\s+"([^"]{8})"', text)})


def file_makers():
    """files of core that make or replace files by themselves: O_EXCL, renameat(), rename()"""
    return sum(1 for path, text in CODE.items() if path.startswith("core/")
               and re.search(r"\bO_EXCL\b|\brename(at2?)?\(", text))


def one_user():
    """percent of the external functions with users that have one user file"""
    used = [users for _, users in external_functions().values() if users]
    if len(used) < 500:
        sys.exit(f"only {len(used)} functions in {BUILD}: nothing is known")
    return 100 * sum(len(users) == 1 for users in used) / len(used)


def named_by_tests():
    """external functions of core + shim that a file of tests/unit names"""
    names = set()
    for text in sources("tests/unit").values():
        names |= set(re.findall(r"\w+", text))
    return sum(1 for function in external_functions() if function in names)


def included_whole():
    """files of tests/unit that include a .c file of core, and so more than its component's public header"""
    return sum(1 for text in sources("tests/unit").values() if re.search(r'#include "core/[\w/]+\.c"', text))


def main():
    if "-" in os.path.basename(BUILD):
        print("a build with a sanitizer has checks that are functions of their own")
        return 77
    figures = {function.__name__: function for function in
               (lines, lines_kernel, files, threads, threads_ipc, locks, formats, file_makers, one_user, named_by_tests,
                included_whole)}
    figures.update({f"lines_{module}": lambda module=module: lines_of(module) for module in MODULES})
    wrong.extend(f"{TABLE}: {name}: no such figure" for name in BUDGETS if name not in figures)
    wrong.extend(f"{TABLE}: {name} has no bound" for name in figures if name not in BUDGETS)
    rows = []
    for name, (bound, goal) in BUDGETS.items():
        if name not in figures:
            continue
        figure = figures[name]()
        show = f"{figure:.1f}" if isinstance(figure, float) else f"{figure:,}"
        rows.append(f"{name:16} {show:>8}  at most {bound:8,g}" + (f"  goal {goal:8,g}" if goal is not None else ""))
        if figure > bound:
            wrong.append(f"{name} is {show}, at most {bound:,g}: {figures[name].__doc__ or 'code lines of the module'}")
    print("\n".join(rows + wrong))
    if any("at most" in line for line in wrong):
        print(f"Shorten what has grown. Else raise the bound in {TABLE}, in the commit that says why.")
    if TABLE == OURS:
        os.makedirs(f"{BUILD}/tests", exist_ok=True)
        with open(f"{BUILD}/tests/budgets", "w", encoding="utf-8") as report:
            report.write("\n".join(rows) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
