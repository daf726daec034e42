#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the code against the table of locks in core/base/lock.h: a lock is taken, waited with or given
back by its functions alone. Each rank is some lock's. Shipped objects hold nothing of the checks.

test_locks.py [ROOT [BUILD]]
"""

import glob
import os
import re
import subprocess
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, os.environ.get("BUILD", "build"))
table = os.path.join(root, "core/base/lock.h")
bare = re.compile(
    r"\b(pthread_(mutex_(lock|trylock|timedlock|clocklock|unlock|init)|rwlock_\w*lock|cond_(timed|clock)?wait|spin_\w+)"
    r"|mtx_\w+|cnd_\w+|pthread_(mutex|rwlock|spinlock)_t|PTHREAD_(MUTEX|RWLOCK)_INITIALIZER)\b"
)
# What lies in shared memory is a mutex among processes, and is made so in one place;
# deadline_lock() is a lock's own.
shared = {
    "core/base/deadline.c": {"pthread_mutex_t"},
    "core/base/deadline.h": {"pthread_mutex_t"},
    "core/state/layout.h": {"pthread_mutex_t"},
    "core/state/slot.c": {"pthread_mutex_t"},
    "core/state/slot.c": {"pthread_mutex_t", "pthread_mutex_init"},
}
wrong = []


def code_of(path):
    text = open(path, encoding="utf-8").read()
    return re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.S)


ranks = re.findall(r"^\tX\((\w+),", open(table, encoding="utf-8").read(), flags=re.M)
used = set()
for folder in ("core", "shim"):
    for path in sorted(glob.glob(os.path.join(root, folder, "**/*.[ch]"), recursive=True)):
        name = os.path.relpath(path, root)
        if name in ("core/base/lock.h", "core/base/glibc.h"):
            continue
        text = code_of(path)
        used |= set(re.findall(r"LOCK_OF\((\w+)\)", text)) | set(re.findall(r"locks_before\([^()]*, LOCK_(\w+)\)", text))
        for number, line in enumerate(text.split("\n"), 1):
            for found in bare.finditer(line):
                if found.group() not in shared.get(name, ()):
                    wrong.append(f"{name}:{number}: {found.group()}: locks are taken by core/base/lock.h")

wrong += [f"core/base/lock.h: no lock has the rank {rank}" for rank in ranks if rank not in used]
if len(ranks) < 10:
    wrong.append("core/base/lock.h: its table is not found")

objects = glob.glob(os.path.join(build, "core/**/*.o"), recursive=True)
if not objects:
    wrong.append(f"{build} holds no object of core: build first")
elif not os.environ.get("SANITIZER"):
    symbols = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True).stdout
    wrong += [f"what is shipped holds {name}" for name in sorted(set(re.findall(r"\blocks_\w+", symbols)))]

print("\n".join(wrong))
print(f"{len(ranks)} ranks: {len(wrong)} lines of what is wrong")
sys.exit(bool(wrong))
