# SPDX-License-Identifier: MIT
"""Trains a small model with PyTorch, deterministically, and prints its working set and a checksum of
its weights. Knows nothing of Spillway."""
import hashlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # asked for by deterministic cuBLAS
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
width, batch, steps = 8192, 64, 10

layers = []
for _ in range(4):
    layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
inputs = torch.randn(steps, batch, width)
labels = torch.randint(10, (steps, batch))

for step in range(steps):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs[step].cuda()), labels[step].cuda())
    loss.backward()
    optimizer.step()

digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().cpu().numpy().tobytes())
print(
    f"train_pytorch: torch={torch.__version__} loss={loss.item():.6f} "
    f"working_set={torch.cuda.max_memory_allocated()} checksum={digest.hexdigest()[:16]}"
)
