# SPDX-License-Identifier: MIT
"""Trains with tinygrad on batches that other processes make, in each way that Python's multiprocessing starts them.

Forked loaders work without CUDA, as they have to after their parent opened it. Spawned ones and
those of a fork server use tinygrad on the same GPU. A batch is the same however it was made, so all
ways end with the same weights. Prints for each "WAY checksum=...", and how many loaders there were."""

import argparse
import hashlib
import multiprocessing
import os

import numpy

ROWS, PIXELS, CLASSES = 32, 256, 10


def make_batch(work):
    """Doubles random numbers, which is exact on either device."""
    number, on_gpu = work
    x = numpy.random.default_rng(number).random((ROWS, PIXELS), dtype=numpy.float32)
    if on_gpu:
        from tinygrad import Tensor

        return (Tensor(x) * 2).numpy(), os.getpid()
    return x * 2, os.getpid()


def train(way, batches, loaders):
    from tinygrad import Tensor

    held = Tensor.ones(8 << 20).contiguous().realize()  # 32 MiB, which is more than the limit of the test
    weights = Tensor(numpy.full((PIXELS, CLASSES), 0.125, dtype=numpy.float32)).realize()
    work = [(number, way != "fork") for number in range(batches)]
    seen = set()
    with multiprocessing.get_context(way).Pool(loaders) as pool:
        for batch, loader in pool.imap(make_batch, work):
            seen.add(loader)
            x = Tensor(batch)
            weights = (weights - x.transpose().matmul(x.matmul(weights)) * 2**-12).realize()
        pool.close()
        pool.join()
    assert os.getpid() not in seen
    assert float(held.sum().numpy()) == 8 << 20
    return hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16], len(seen)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=24)
    options.add_argument("--loaders", type=int, default=2)
    options = options.parse_args()
    for way in "fork", "spawn", "forkserver":
        checksum, loaders = train(way, options.batches, options.loaders)
        print(f"{way} checksum={checksum} loaders={loaders}", flush=True)


if __name__ == "__main__":
    main()
