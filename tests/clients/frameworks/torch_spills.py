# SPDX-License-Identifier: MIT
"""torch_spills.py LIMIT_MIB WHAT...: takes memory of PyTorch beyond a limit, in each way that is
named, and compares all of it with the data that was written. A refusal that PyTorch does not get
over ends it with PyTorch's OutOfMemoryError, but for `full` and its like. Prints the caching
allocator's counts."""
import sys
import threading

import torch

limit = int(sys.argv[1])


def empty(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def pattern(mib, seed):
    """Bytes that differ between places and between seeds."""
    return (torch.arange(mib << 20, dtype=torch.int32) // 251 + seed * 37).to(torch.uint8)


def filled(mib, seed):
    tensor = empty(mib)
    tensor.copy_(pattern(mib, seed))
    return tensor


def check(tensor, mib, seed):
    assert torch.equal(tensor.cpu(), pattern(mib, seed)), f"tensor {seed} of {mib} MiB has changed"


def six():
    """Six tensors of 20 MiB, one after the other, within a second, between calls for a profiler."""
    with torch.cuda.profiler.profile():
        tensors = [filled(20, i) for i in range(6)]
    for i, tensor in enumerate(tensors):
        check(tensor, 20, i)


def reuse():
    """A tensor that is freed into the cache, then a larger one that does not fit beside it."""
    small = filled(limit // 2 - 2, 1)
    del small
    check(filled(limit // 2 + 4, 2), limit // 2 + 4, 2)


def threads():
    """Four threads that take memory at the same time, each twice."""
    failed = []

    def one(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                kept = [filled(12, seed), filled(14, seed + 1)]
                torch.cuda.current_stream().synchronize()
                check(kept[0], 12, seed)
                check(kept[1], 14, seed + 1)
        except BaseException as error:  # pylint: disable=broad-except
            failed.append(error)

    all_threads = [threading.Thread(target=one, args=(10 * i,)) for i in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    if failed:
        raise failed[0]


def pool():
    """An allocation in a MemPool, and one of another thread beside an open one."""
    mine = torch.cuda.MemPool()
    beside = filled(20, 1)
    with torch.cuda.use_mem_pool(mine):
        within = filled(20, 2)
        check(within, 20, 2)
        other = []
        thread = threading.Thread(target=lambda: other.append(filled(20, 3)))
        thread.start()
        thread.join()
    check(other[0], 20, 3)
    check(beside, 20, 1)
    del within
    torch.cuda.synchronize()


def fraction():
    """
    PyTorch's own bound is met first: the cache is given back before the driver is asked, and the
    driver's first refusal is the last try.
    """
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    kept = filled(20, 1)
    torch.cuda.set_per_process_memory_fraction(min(1.0, (60 << 20) / total))
    del kept
    kept = filled(20, 2)
    cached = empty(30)
    del cached
    check(filled(38, 3), 38, 3)
    check(kept, 20, 2)
    torch.cuda.set_per_process_memory_fraction(1.0)


def graph():
    """An allocation that must spill while a graph is captured; the graph is launched twice."""
    source = pattern(20, 1).pin_memory()
    kept = filled(20, 2)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        within = empty(20)
        within.copy_(source, non_blocking=True)
    for seed in 3, 4:
        source.copy_(pattern(20, seed))
        captured.replay()
        torch.cuda.synchronize()
        check(within, 20, seed)
    check(kept, 20, 2)


def refused():
    """More than device and host have."""
    try:
        empty(1100)
    except torch.OutOfMemoryError:
        return
    raise AssertionError("1100 MiB were had")


def full():
    """A refusal that stands, which PyTorch asks about twice."""
    refused()


def full_pool():
    """The same in a MemPool."""
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        refused()


def full_graph():
    """The same in a capture, where PyTorch asks once."""
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        refused()


for what in sys.argv[2:]:
    globals()[what]()
    torch.cuda.synchronize()
counted = torch.cuda.memory_stats()
print(f"retries={counted.get('num_alloc_retries', 0)} ooms={counted.get('num_ooms', 0)}")
