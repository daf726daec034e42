# SPDX-License-Identifier: MIT
"""Reads the house: which files there are, which room each is in, and which uses which, by includes and by symbols."""

import collections
import os
import re
import subprocess

CODE = (".c", ".h", ".S")
PROGRAMS = ("tools/", "shim/probe/")


def rooms(root, table="core/rooms"):
    """Returns {room: the rooms it may use}, in the file's order; a word that ends with a slash is all rooms within, and one with
    ! before it leaves them out again."""
    named = collections.OrderedDict()
    with open(os.path.join(root, table)) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                named[words[0]] = words[1:]
    allowed = collections.OrderedDict()
    for room, words in named.items():
        allowed[room] = {room}
        for word in words:
            name = word.lstrip("!")
            within = {other for other in named if other == name or name.endswith("/") and other.startswith(name)}
            if not within:
                raise SystemExit(f"{table}: {room}: '{word}' is no room")
            if word.startswith("!"):
                allowed[room] -= within - {room}
            else:
                allowed[room] |= within
    return allowed


def in_kernel(room):
    """Returns whether a room belongs to the kernel, which is built with any modules or none."""
    return room.split("/")[0] in ("core", "shim") and not room.startswith("core/modules/")


def files(root, allowed, table="core/rooms"):
    """Returns {file: its room, or None} of all code below the folders that rooms are in.

    Of rooms beside the table's own folder core/rooms has whole folders: all of tools/, for example; another table has
    those that it names.
    """
    own = os.path.dirname(table)
    found = {}
    for top in sorted({own if room == own or room.startswith(own + "/") else
                       room.split("/")[0] if table == "core/rooms" else room for room in allowed}):
        for folder, _, names in os.walk(os.path.join(root, top)):
            folder = os.path.relpath(folder, root)
            room = folder if folder in allowed else None
            for name in names:
                if name.endswith(CODE):
                    path = os.path.join(folder, name)
                    found[path] = path if path in allowed else room
    return found


def includes(root, found):
    """Returns {file: [the files of the house it includes]}."""
    line = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
    edges = {}
    for file in found:
        with open(os.path.join(root, file), errors="replace") as text:
            named = line.findall(text.read())
        edges[file] = []
        for name in named:
            beside = os.path.normpath(os.path.join(os.path.dirname(file), name))
            edges[file] += [f for f in (name, beside) if f in found][:1]
    return edges


def symbols(build, found):
    """Returns {file: {file that defines: [symbols]}} of the object files of `found` below the build folder."""
    defines, wants, units = {}, {}, {}
    for file in found:
        base, kind = os.path.splitext(file)
        unit = os.path.join(build, base + ".o")
        if kind != ".h" and os.path.exists(unit):
            units[unit] = file
            wants[file] = set()
    lines = subprocess.check_output(["nm", "-A", *units], text=True).splitlines() if units else []
    for line in lines:
        unit, rest = line.rsplit(":", 1)
        file, (kind, symbol) = units[unit], rest.split()[-2:]
        if kind == "U":
            wants[file].add(symbol)
        elif kind in "TDBRCVW":
            defines.setdefault(symbol, file)
    edges = {file: collections.defaultdict(list) for file in wants}
    for file, names in wants.items():
        for symbol in sorted(names):
            other = defines.get(symbol)
            # programs are linked with no object of the shim: a name that both know is libc's
            if other and other != file and not (file.startswith(PROGRAMS) and other.startswith("shim/")):
                edges[file][other].append(symbol)
    return edges


def circles(edges):
    """Returns the strongly connected sets of two nodes or more, each sorted (Tarjan)."""
    index, low, stack, on_stack, result = {}, {}, [], set(), []

    def visit(node):
        # without recursion: a house may be deep
        work = [(node, iter(sorted(edges.get(node, ()))))]
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        while work:
            at, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_stack:
                    low[at] = min(low[at], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    circle = []
                    while True:
                        circle.append(stack.pop())
                        on_stack.discard(circle[-1])
                        if circle[-1] == at:
                            break
                    if len(circle) > 1:
                        result.append(sorted(circle))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return result


def all_files(root):
    """Returns the files that git knows, or in a tarball all that are not built."""
    try:
        found = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout.split("\0")
        return sorted(path for path in found if path and os.path.exists(os.path.join(root, path)))
    except (subprocess.CalledProcessError, FileNotFoundError):
        pass
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not re.match(r"build|__pycache__", name)]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)
