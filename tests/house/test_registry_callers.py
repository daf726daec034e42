#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each public function of core/registry has a caller in the product: in core, shim or tools, in another file than its own.
The callers that core/registry/README.md names call.

test_registry_callers.py [ROOT]
"""

import os
import re
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
room = os.path.join(root, "core/registry")
PRIVATE = ("registry_private.h", "container.h")  # "Private." stands in their heads


def code(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", " ", file.read(), flags=re.S)


public = {}
for name in sorted(os.listdir(room)):
    if not name.endswith(".h"):
        continue
    with open(os.path.join(room, name), encoding="utf-8") as file:
        is_private = "Private." in file.read()
    if is_private != (name in PRIVATE):
        sys.exit(f"core/registry/{name}: is it private or not?")
    if not is_private:
        text = code(os.path.join(room, name))
        inline = r"^static inline [^;{]*?\b([a-z_]+)\([^;{]*\)\s*\{.*?^\}"
        public.update({function: name for function in re.findall(inline, text, re.M | re.S)})
        text = re.sub(inline, "", text, flags=re.M | re.S)
        for function in re.findall(r"^(?!static|typedef|#)[a-z].*?\b([a-z_]+)\([^;{]*\);", text, re.M | re.S):
            public[function] = name

calls = {function: set() for function in public}
makes = {}
for top in ("core", "shim", "tools"):
    for folder, _, files in os.walk(os.path.join(root, top)):
        for name in files:
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.join(folder, name)
            text = code(path)
            for function in set(re.findall(r"\b[a-z_]+\b(?=\()", text)) & public.keys():
                if re.search(r"^(?!\s)[^\n;]*\b" + function + r"\([^;{]*\)\s*\{", text, re.M):
                    makes[function] = path
                elif name.endswith(".c") or folder != room or len(re.findall(r"\b" + function + r"\(", text)) > 1:
                    calls[function].add(path)

wrong = [f"core/registry/{public[f]}: {f}() is in no file" for f in public if f not in makes]
wrong += [f"core/registry/{public[f]}: {f}() has no caller but tests" for f in public if not calls[f] - {makes.get(f)}]
with open(os.path.join(room, "README.md"), encoding="utf-8") as file:
    named = re.findall(r"^\|.*\| `(\w+)\(\)` \| `([\w/.]+)` \|$", file.read(), re.M)
for function, caller in named:
    path = os.path.join(root, caller)
    if not os.path.exists(path) or not re.search(r"\b" + function + r"\(", code(path)):
        wrong.append(f"core/registry/README.md: {caller} does not call {function}()")
if len(named) < 10:
    wrong.append("core/registry/README.md: its callers are not found")
if len(public) < 50:
    wrong.append(f"only {len(public)} functions were found")
print("\n".join(wrong) if wrong else f"{len(public)} functions, each with a caller")
sys.exit(bool(wrong))
