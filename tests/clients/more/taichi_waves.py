# SPDX-License-Identifier: MIT
"""taichi_waves.py: Taichi moves waves over fields of 2 MiB, and compares with numpy. Prints a checksum
of all results and the memory that it takes."""
import numpy as np
import taichi as ti
from results import checksum

FIELDS, SIDE, TURNS = 12, 724, 4
ti.init(arch=ti.cuda, offline_cache=False, fast_math=False)
assert ti.cfg.arch == ti.cuda, ti.cfg.arch


@ti.kernel
def move(new: ti.types.ndarray(ti.f32, 2), old: ti.types.ndarray(ti.f32, 2)):
    for y, x in ti.ndrange(SIDE, SIDE):
        near = old[(y + SIDE - 1) % SIDE, x] + old[(y + 1) % SIDE, x]
        near = near + (old[y, (x + SIDE - 1) % SIDE] + old[y, (x + 1) % SIDE])
        new[y, x] = new[y, x] * ti.f32(0.5) + ti.sin(near * ti.f32(0.1))


def moved(new, old):
    near = (np.roll(old, 1, 0) + np.roll(old, -1, 0)) + (np.roll(old, 1, 1) + np.roll(old, -1, 1))
    return new * np.float32(0.5) + np.sin(near * np.float32(0.1))


def main():
    random = np.random.default_rng(7)
    hosts = [random.random((SIDE, SIDE), dtype=np.float32) for _ in range(FIELDS)]
    fields = []
    for host in hosts:
        fields.append(ti.ndarray(ti.f32, (SIDE, SIDE)))
        fields[-1].from_numpy(host)
    for _ in range(TURNS):
        for i in range(FIELDS):
            move(fields[i], fields[i - 1])
            hosts[i] = moved(hosts[i], hosts[i - 1])
    got = (field.to_numpy() for field in fields)
    print(f"taichi_waves checksum={checksum(got, hosts)} peak={FIELDS * 2}MiB")


main()
