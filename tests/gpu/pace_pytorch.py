# SPDX-License-Identifier: MIT
"""Trains a small model with PyTorch for so many seconds and prints how many steps it made. Knows nothing of Spillway."""
import sys
import time

import torch

torch.manual_seed(1)
width, batch = 4096, 256
model = torch.nn.Sequential(
    *(layer for _ in range(4) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())),
    torch.nn.Linear(width, 10),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs = torch.randn(batch, width, device="cuda")
labels = torch.randint(10, (batch,), device="cuda")


def train(seconds):
    """Steps until then; as in a training, the host waits for the loss now and then only."""
    begin, steps = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for _ in range(8):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            steps += 1
        loss.item()
    return steps, (time.monotonic() - begin) * 1e3


train(1)  # libraries load, kernels are chosen
done, elapsed_ms = train(float(sys.argv[1]))
print(f"pace_pytorch: torch={torch.__version__} steps={done} elapsed_ms={elapsed_ms:.1f}")
