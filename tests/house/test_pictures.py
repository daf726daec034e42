#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A picture of README shows its last frame where animation does not run: without CSS animation, and where the user asks
for reduced motion.

test_pictures.py [ROOT]
"""

import os
import re
import sys
import xml.etree.ElementTree as tree

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
wrong = []
with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*\.svg)\)", file.read())
for name in pictures:
    path = os.path.join(root, name)
    document = tree.parse(path).getroot()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    frames = [node for node in document if re.fullmatch(r"f\d+", node.get("id", ""))]
    if not frames:
        if re.search(r"@keyframes|<animate|visibility", text):
            wrong.append(f"{name}: it moves, and has no frames that this test knows")
        continue
    if [node.get("visibility") for node in frames] != ["hidden"] * (len(frames) - 1) + [None]:
        wrong.append(f"{name}: not the last frame alone is shown without animation")
    if not re.search(r"prefers-reduced-motion: *reduce\)\{g\{animation: *none *!important\}\}", text):
        wrong.append(f"{name}: it moves where the user asks for reduced motion")
for line in wrong:
    print(line)
print(f"{len(pictures)} pictures, {len(wrong)} wrong")
sys.exit(bool(wrong or len(pictures) < 3))
