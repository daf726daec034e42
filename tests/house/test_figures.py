#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures that README names are those of the bench, in the tables of tests/bench/README.md.

test_figures.py [ROOT]
"""

import os
import re
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
ROWS = {  # README's label: the bench's
    "kernel launch": "launch",
    "`cuMemGetInfo`": "`cuMemGetInfo`",
    "4 KiB allocated and freed": "alloc + free, 4 KiB",
    "64 MiB allocated and freed": "alloc + free, 64 MiB",
    "a free beside 64,000 allocations": "free beside 64,000 others",
}
COLUMNS = {"without": "none", "Spillway, no limit": "Spillway", "Spillway, limited job": "in a limited job", "HAMi-core": "HAMi-core"}
wrong = []


def numbers(cell):
    """The figures of a cell without their ranges, as they are written."""
    return re.findall(r"\d[\d,]*(?:\.\d+)?(?<!,)", re.sub(r"\[[^]]*\]", "", cell))


def tables(path):
    """Each table of a document as ([heading], {label: [cell]})."""
    found, block = [], []
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for line in file.read().splitlines() + [""]:
            if line.startswith("|"):
                block.append([cell.strip() for cell in line.strip("|").split("|")])
            elif block:
                found.append((block[0], {row[0]: row for row in block[2:]}))
                block = []
    return found


def rounds_to(written, measured):
    """Whether the one is the other with fewer digits: 339,000 is 339,352."""
    said, value = float(written.replace(",", "")), float(measured.replace(",", ""))
    digits = re.sub(r"\D", "", written).lstrip("0")
    digits = digits if "." in written else digits.rstrip("0")
    return said == float(f"{value:.{max(len(digits), 1)}g}")


def table_with(found, label):
    return next((headings, rows) for headings, rows in found if label in rows)


readme, bench = tables("README.md"), tables("tests/bench/README.md")
said_headings, said = table_with(readme, "kernel launch")
done_headings, done = table_with(bench, "alloc + free, 4 KiB")
for label, measured in ROWS.items():
    for heading, of in COLUMNS.items():
        place, source = said_headings.index(heading), done_headings.index(of)
        says, has = numbers(said[label][place]), numbers(done[measured][source])
        if of == "HAMi-core" and not has:  # limits are measured in limited jobs alone
            has = numbers(done[measured][source + 1])
        if says and (len(says) != len(has) or not all(map(rounds_to, says, has))):
            wrong.append(f"README.md: {label}, {heading}: {says}; the bench has {has}")

# What a launch costs more, of Spillway unlimited to limited, and of HAMi-core.
launch = [float(numbers(cell)[0]) if numbers(cell) else 0 for cell in done["launch"]]
cost_headings, cost = table_with(readme, "cost of a launch, no limit set")
for heading in ("Spillway", "HAMi-core"):
    more = round(launch[done_headings.index(heading)] - launch[done_headings.index("none")])
    cell = cost["cost of a launch, no limit set"][cost_headings.index(heading)]
    if cell != f"+{more} ns":
        wrong.append(f"README.md: cost of a launch, {heading}: {cell}; the bench has +{more} ns")
race = numbers(done["MiB beyond a limit of 256, eight processes racing"][done_headings.index("limited")])
cell = cost["memory limit per job, all its processes"][cost_headings.index("HAMi-core")]
if race == ["0"] and re.search(r"rac\w+ can exceed", cell):
    wrong.append(f"README.md: limit of HAMi-core: '{cell}', but the bench's race went 0 MiB beyond")

# Figures of a kind of their own are in sentences.
SENTENCES = {
    r"race go (\d+) MiB beyond a limit": ("MiB beyond a limit of 256, eight processes racing", "in a limited job"),
    r"are held as ([\d.]+), ([\d.]+) and ([\d.]+)": ("share held of 30, 50, 70 %", "Spillway"),
    r"work done is (\d+), (\d+) and (\d+) %": ("work done of share × unpaced, %", "Spillway"),
}
with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
    text = file.read()
for sentence, (measured, heading) in SENTENCES.items():
    found, has = re.search(sentence, text), numbers(done[measured][done_headings.index(heading)])
    if not found or list(found.groups()) != has:
        wrong.append(f"README.md: '{sentence}': {found and found.groups()}; the bench has {has}")

# The cost of cuInit over the driver's own is a sentence in both.
with open(os.path.join(root, "tests/bench/README.md"), encoding="utf-8") as file:
    more = re.search(r"\+(\d+) µs for a job without a name, \+(\d+) for a limited one and \+(\d+) for HAMi-core", file.read())
costs = re.search(r"take (\d+) µs longer, (\d+) in a limited job, and (\d+) under HAMi-core", text)
if not costs or costs.groups() != more.groups():
    wrong.append(f"README.md: cuInit: {costs and costs.groups()}; the bench has {more.groups()}")

# The other figures are written in the bench's document as they stand.
with open(os.path.join(root, "tests/bench/README.md"), encoding="utf-8") as file:
    known = set(numbers(file.read()))
for label, row in table_with(readme, "a training beside a best-effort job that never stops: its speed")[1].items():
    for figure in numbers(row[1]):
        if figure not in known:
            wrong.append(f"README.md: {label}: {figure} is not in tests/bench/README.md")
# The price of spilling is the first row of the training in the bench's table. A script writes both.
limits, price = table_with(readme, "predicted")
headings, trained = next((headings, rows) for headings, rows in bench if headings[0].startswith("training of"))
row = next(iter(trained.values()))
for place, limit in enumerate(limits[1:], 1):
    says, has = [price[label][place] for label in ("predicted", "measured")], numbers(row[headings.index(limit)])[:2]
    if says != has:
        wrong.append(f"README.md: the price of {limit}: {says}; the bench has {has}")
for line in wrong:
    print(line)
print(f"{len(ROWS) + len(SENTENCES)} rows compared, {len(wrong)} wrong")
sys.exit(bool(wrong))
