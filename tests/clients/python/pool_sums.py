"""Python's multiprocessing: two workers each compute sums with tinygrad and compare with numpy.

pool_sums.py fork|spawn|forkserver. The parent computes too, before the workers and after them, but with fork,
where its children could not use CUDA (as without Spillway) and it computes afterwards alone.
Prints "pool_sums: method=M sums=N wrong=N workers=N".
"""

import multiprocessing
import os
import sys

import numpy

WORKERS, ROWS, COLUMNS = 2, 512, 1024
together = None


def wrong_sums(seed):
    """Returns how many of the sums differ from numpy's, and who computed them."""
    from tinygrad import Tensor

    numbers = numpy.random.default_rng(seed).integers(-1000, 1000, (ROWS, COLUMNS)).astype(numpy.int32)
    kept = [Tensor(numbers + i).realize() for i in range(4)]  # 8 MiB
    wrong = 0
    for i, tensor in enumerate(kept):
        wrong += int((tensor.sum(axis=1).numpy() != (numbers + i).sum(axis=1)).sum())
    return wrong, os.getpid()


def meet(barrier):
    global together
    together = barrier


def work(seed):
    together.wait()  # so that each worker has one
    return wrong_sums(seed)


def main():
    method = sys.argv[1]
    wrong = 0
    if method != "fork":
        wrong += wrong_sums(100)[0]
    context = multiprocessing.get_context(method)
    with context.Pool(WORKERS, meet, (context.Barrier(WORKERS),)) as pool:
        answers = pool.map(work, range(WORKERS), chunksize=1)
        pool.close()
        pool.join()
    wrong += sum(answer for answer, _ in answers)
    wrong += wrong_sums(200)[0]
    workers = {pid for _, pid in answers} - {os.getpid()}
    print(f"pool_sums: method={method} sums={WORKERS * 4 * ROWS} wrong={wrong} workers={len(workers)}")


if __name__ == "__main__":
    main()
