# SPDX-License-Identifier: MIT
"""torch_beside.py saver|cumem [FILE]: another allocator's memory beside PyTorch's own, which that
allocator releases and makes again at the same addresses. Both are compared with what was written.

saver: torch_memory_saver, by its hook (TMS_HOOK_MODE=preload|torch). cumem: vLLM's cumem_allocator,
of which FILE is the library, as its sleep mode drives it.
"""
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import os
import sys

import torch

MIB = 12


@functools.cache
def pattern(seed):
    """Bytes that differ between places and between seeds."""
    return (torch.arange(MIB << 20, dtype=torch.int32) // 251 + seed * 37).to(torch.uint8)


def filled(seed):
    tensor = torch.empty(MIB << 20, dtype=torch.uint8, device="cuda")
    tensor.copy_(pattern(seed))
    return tensor


def check(tensor, seed):
    assert torch.equal(tensor.cpu(), pattern(seed)), f"tensor {seed} has changed"


class Saver:
    """torch_memory_saver: pause() keeps a copy on the host, and resume() brings it back."""

    def __init__(self):
        from torch_memory_saver import torch_memory_saver
        self.saver = torch_memory_saver
        self.saver.hook_mode = os.environ["TMS_HOOK_MODE"]

    def region(self):
        return self.saver.region(enable_cpu_backup=True)

    def sleep(self):
        self.saver.pause()

    def wake(self):
        self.saver.resume()


class Cumem:
    """vLLM's allocator, with the copies that its sleep mode makes."""

    def __init__(self, path):
        spec = importlib.util.spec_from_file_location("cumem_allocator", path)
        self.library = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.library)
        self.handles, self.copies = {}, {}
        self.taken = lambda handle: self.handles.__setitem__(handle[2], handle)
        self.library.init_module(self.taken, self.handles.pop)
        self.allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "my_malloc", "my_free")
        # pylint: disable-next=protected-access
        self.pool = torch.cuda.memory.MemPool(self.allocator._allocator)

    @contextlib.contextmanager
    def region(self):
        with torch.cuda.memory.use_mem_pool(self.pool):
            yield

    def copy(self, name, to, start, size):
        driver = ctypes.CDLL("libcuda.so.1")
        assert getattr(driver, name)(to, start, ctypes.c_size_t(size)) == 0, name

    def sleep(self):
        for address, handle in self.handles.items():
            self.copies[address] = (ctypes.c_char * handle[1])()
            self.copy("cuMemcpyDtoH_v2", self.copies[address], ctypes.c_uint64(address), handle[1])
            self.library.python_unmap_and_release(*handle)

    def wake(self):
        for address, handle in self.handles.items():
            self.library.python_create_and_map(*handle)
            self.copy("cuMemcpyHtoD_v2", ctypes.c_uint64(address), self.copies[address], handle[1])


other = Saver() if sys.argv[1] == "saver" else Cumem(sys.argv[2])
own = [filled(1), filled(2)]
with other.region():
    theirs = [filled(3), filled(4)]
at = [tensor.data_ptr() for tensor in theirs]
for _ in range(3):
    torch.cuda.synchronize()
    other.sleep()
    check(own[0], 1)
    beside = filled(5)
    other.wake()
    check(beside, 5)
    del beside
    for tensor, seed in zip(own + theirs, (1, 2, 3, 4)):
        check(tensor, seed)
    assert at == [tensor.data_ptr() for tensor in theirs], "an address has changed"
    theirs[0].copy_(pattern(6))
    check(theirs[0], 6)
    theirs[0].copy_(own[1])
    check(theirs[0], 2)
    theirs[0].copy_(pattern(3))
written = b"".join(bytes(tensor.cpu().numpy()) for tensor in own + theirs)
print("checksum=" + hashlib.sha256(written).hexdigest()[:16])
sys.stdout.flush()
os._exit(0)  # pools of other allocators end in the wrong order (pytorch#145168)
