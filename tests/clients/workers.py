# SPDX-License-Identifier: MIT
"""workers.py tinygrad|jax direct|fork|spawn|forkserver...: sums of floats by workers that are started in each of these
ways; prints a checksum of the sums of each way, the same for all. direct: no workers.

Forked workers are those of a parent without CUDA: one is killed and another takes its place, and each ends after two
tasks. In the end this process computes, too, and forks a child, which has no CUDA. Prints the time of each way.
"""
import concurrent.futures
import ctypes
import hashlib
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy

NOT_INITIALIZED = 3
SEEDS = range(4)
engine = sys.argv[1]


def sums(seed):
    numbers = numpy.random.default_rng(seed).standard_normal((4, 512, 1024), dtype=numpy.float32)
    if engine == "tinygrad":
        from tinygrad import Tensor

        kept = [Tensor(each).realize() for each in numbers]  # 8 MiB
        return [(each * each + 0.1).sum(axis=1).numpy().tobytes() for each in kept]
    import jax

    assert jax.default_backend() == "gpu"
    kept = [jax.numpy.asarray(each) for each in numbers]
    add = jax.jit(lambda each: (each * each + 0.1).sum(axis=1))
    return [numpy.asarray(add(each)).tobytes() for each in kept]


def die_with_memory(seed):
    sums(seed)
    os.kill(os.getpid(), signal.SIGKILL)


def by_workers(way):
    context = multiprocessing.get_context(way)
    if way == "fork":
        try:
            with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
                pool.submit(die_with_memory, 9).result()
            sys.exit("a worker that was killed had a result")
        except concurrent.futures.process.BrokenProcessPool:
            pass
    else:
        context.set_forkserver_preload([engine])
    with context.Pool(2 if way == "fork" else 1, maxtasksperchild=2 if way == "fork" else None) as pool:
        results = pool.map(sums, SEEDS, chunksize=1)
        pool.close()
        pool.join()
    return results


def without_cuda():
    """Forks while another thread works. A child has no CUDA, one thread, and harms nothing."""
    cuda = ctypes.CDLL("libcuda.so.1")
    expected = sums(1)
    again = []
    thread = threading.Thread(target=lambda: again.append([sums(1) for _ in range(3)]))
    thread.start()
    children = []
    while thread.is_alive() and len(children) < 20:
        pid = os.fork()
        if pid == 0:
            address = ctypes.c_uint64()
            answers = {cuda.cuInit(0), cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1))}
            os._exit(0 if answers == {NOT_INITIALIZED} and len(os.listdir("/proc/self/task")) == 1 else 1)
        children.append(os.waitpid(pid, 0)[1])
    thread.join()
    assert again == [[expected] * 3], "the parent's sums differ"
    assert not any(children), children


def main():
    if engine == "jax" and "fork" in sys.argv[2:]:
        import jax  # noqa: F401 as a program that forks does: once, and no backend yet
    for way in sys.argv[2:]:
        begin = time.monotonic()
        results = [sums(seed) for seed in SEEDS] if way == "direct" else by_workers(way)
        checksum = hashlib.sha256(b"".join(b"".join(each) for each in results)).hexdigest()[:16]
        print(f"workers: {way} checksum={checksum} seconds={time.monotonic() - begin:.1f}", flush=True)
    without_cuda()
    print("workers: end", flush=True)


if __name__ == "__main__":
    main()
