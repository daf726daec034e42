#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""add_report.py [--readme FILE] OUT.tar...: adds reports of the GPU kit to the table in tests/gpu/README.md.

Each row is a GPU with a driver. A report replaces the cells that it tested and leaves the rest. A
cell that no report has tested says "untested". A report of the software GPU is refused."""

import argparse
import os
import sys
import tarfile

FRAMEWORKS = ["nvcc", "pytorch", "jax", "cupy", "triton", "numba"]
COLUMNS = ["GPU", "driver", "Spillway", "steps of the kit", "nvcc", "PyTorch", "JAX", "CuPy", "Triton", "Numba"]
ANY_OTHER = ["any other", "any"] + ["untested"] * (len(COLUMNS) - 2)
HEADING = "## Reports from GPUs\n"


def row_of(archive):
    """Returns the row of a report."""
    with tarfile.open(archive) as tar:
        names = [name for name in tar.getnames() if name.count("/") == 1 and name.endswith("/report.tsv")]
        if len(names) != 1:
            sys.exit(f"{archive}: expected one OUT/report.tsv in it, found {len(names)}")
        lines = tar.extractfile(names[0]).read().decode(errors="replace").splitlines()
    told = dict(line.replace("|", "/").split("\t", 1) for line in lines if "\t" in line)
    if "software GPU" in told.get("gpu", "") or not told.get("driver"):
        sys.exit(f"{archive}: of no GPU with NVIDIA's driver: {told.get('gpu')}, driver {told.get('driver') or 'unknown'}")
    cells = [" ".join(reversed(told[name].split("\t"))).strip() if name in told else "untested" for name in FRAMEWORKS]
    return [told["gpu"], told["driver"], told["spillway"], told["steps"]] + cells


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readme", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "README.md"))
    parser.add_argument("archive", nargs="*")
    arguments = parser.parse_args()
    with open(arguments.readme, encoding="utf-8") as file:
        before, rest = file.read().split(HEADING, 1)
    said, table = rest.split("\n|", 1)
    table, after = ("|" + table).split("\n\n", 1)
    rows = {}
    for line in table.splitlines()[2:-1]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        rows[cells[0], cells[1]] = cells
    for archive in arguments.archive:
        row = row_of(archive)
        old = rows.get((row[0], row[1]), row)
        rows[row[0], row[1]] = [was if new == "untested" else new for was, new in zip(old, row)]
    lines = [COLUMNS, ["---"] * len(COLUMNS)] + [rows[key] for key in sorted(rows)] + [ANY_OTHER]
    table = "\n".join("|" + "|".join(cells) + "|" if cells[0] == "---" else "| " + " | ".join(cells) + " |" for cells in lines)
    with open(arguments.readme, "w", encoding="utf-8") as file:
        file.write(before + HEADING + said + "\n" + table + "\n\n" + after)


if __name__ == "__main__":
    main()
