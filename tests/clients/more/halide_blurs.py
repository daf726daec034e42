# SPDX-License-Identifier: MIT
"""halide_blurs.py: Halide blurs and sharpens images of 2 MiB on the device, each from the one before,
and compares with numpy. Prints a checksum of all results and the memory that it takes."""
import halide as hl
import numpy as np
from results import checksum

IMAGES, SIDE, TURNS = 12, 724, 3


def pipeline(old, target):
    x, y, inner_x, inner_y = (hl.Var(name) for name in ("x", "y", "inner_x", "inner_y"))
    blurred, sharp = hl.Func("blurred"), hl.Func("sharp")

    def at(column, row):
        return old[hl.clamp(column, 0, SIDE - 1), hl.clamp(row, 0, SIDE - 1)]

    blurred[x, y] = (at(x - 1, y) + at(x + 1, y)) * hl.f32(0.25) + at(x, y) * hl.f32(0.5)
    sharp[x, y] = at(x, y) * hl.f32(1.5) - blurred[x, y] * hl.f32(0.5)
    sharp.gpu_tile(x, y, inner_x, inner_y, 32, 8)
    sharp.compile_jit(target)
    return sharp


def sharpened(old):
    wide = np.pad(old, ((0, 0), (1, 1)), mode="edge")
    blurred = (wide[:, :-2] + wide[:, 2:]) * np.float32(0.25) + old * np.float32(0.5)
    return old * np.float32(1.5) - blurred * np.float32(0.5)


def main():
    target = hl.Target("host-cuda-cuda_capability_80")
    old = hl.ImageParam(hl.Float(32), 2)
    function = pipeline(old, target)
    random = np.random.default_rng(3)
    hosts = [random.random((SIDE, SIDE), dtype=np.float32) for _ in range(IMAGES)]
    images = [hl.Buffer(host.copy()) for host in hosts]
    for image in images:
        image.set_host_dirty()
        image.copy_to_device(target)
    for _ in range(TURNS):
        for i in range(IMAGES):
            old.set(images[i])
            new = hl.Buffer(hl.Float(32), [SIDE, SIDE])
            function.realize(new, target)
            images[i] = new
            hosts[i] = sharpened(hosts[i])
    for image in images:
        image.copy_to_host()
    got = (np.array(image) for image in images)
    print(f"halide_blurs checksum={checksum(got, hosts)} peak={(IMAGES + 1) * 2}MiB")


main()
