# SPDX-License-Identifier: MIT
"""kvcached_maps.py: kvcached's memory of a KV cache beside PyTorch's own. kvcached reserves the
addresses of all layers and maps one page of zeros to each of them. It maps physical pages when
blocks are in use, and unmaps them again. All bytes are compared with what was written."""
import ctypes
import hashlib
import os

import torch

# Its library names none of PyTorch's, as it would where setup.py links it.
ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
from kvcached import vmm_ops  # noqa: E402  pylint: disable=wrong-import-position

PAGE, LAYERS, PAGES = 2 << 20, 4, 8  # of a layer's keys, and of its values
OWN_MIB = 12
HALF = PAGES * PAGE


def pattern(size, seed):
    """Bytes that differ between places and between seeds."""
    return (torch.arange(size, dtype=torch.int32) // 251 + seed * 37).to(torch.uint8)


def own(seed):
    tensor = torch.empty(OWN_MIB << 20, dtype=torch.uint8, device="cuda")
    tensor.copy_(pattern(OWN_MIB << 20, seed))
    return tensor


def places(page):
    """Each place of a page: its tensor, its first byte and a seed."""
    for layer, tensor in enumerate(layers):
        for part in range(2):
            yield tensor.view(torch.uint8), part * HALF + page * PAGE, 1 + page + PAGES * (2 * layer + part)


def write(page):
    for tensor, at, seed in places(page):
        tensor[at:at + PAGE].copy_(pattern(PAGE, seed))


def check(page):
    for tensor, at, seed in places(page):
        assert torch.equal(tensor[at:at + PAGE].cpu(), pattern(PAGE, seed)), f"page {page} at {at} has changed"


vmm_ops.init_kvcached("cuda:0", PAGE, False)
layers = vmm_ops.create_kv_tensors(2 * HALF, 2, "cuda:0", LAYERS, 2, 0, False)
at_first = [tensor.data_ptr() for tensor in layers]
beside = [own(101), own(102)]
mapped = []
for turn in range(3):
    wanted = [page for page in range(PAGES) if (page + turn) % 4 != 3]
    gone, new = [p for p in mapped if p not in wanted], [p for p in wanted if p not in mapped]
    assert not gone or vmm_ops.unmap_from_kv_tensors([page * PAGE for page in gone], 0)
    assert vmm_ops.map_to_kv_tensors([page * PAGE for page in new], 0)
    for page in new:
        write(page)
    mapped = wanted
    torch.cuda.synchronize()
    more = own(103 + turn)
    for page in mapped:
        check(page)
    for seed, tensor in zip((101, 102, 103 + turn), beside + [more]):
        assert torch.equal(tensor.cpu(), pattern(OWN_MIB << 20, seed)), f"tensor {seed} has changed"
    del more
assert at_first == [tensor.data_ptr() for tensor in layers], "an address has changed"
sum_of_all = hashlib.sha256()
for page in mapped:
    for tensor, at, _ in places(page):
        sum_of_all.update(bytes(tensor[at:at + PAGE].cpu().numpy()))
print("checksum=" + sum_of_all.hexdigest()[:16], flush=True)
os._exit(0)
