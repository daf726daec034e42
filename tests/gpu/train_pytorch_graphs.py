# SPDX-License-Identifier: MIT
"""Trains a small model with PyTorch. Its whole step is one captured graph that is replayed. It prints
the loss of each step, its working set and a checksum of its weights. Knows nothing of Spillway."""
import hashlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # asked for by deterministic cuBLAS
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
width, batch, steps = 4096, 64, 300

layers = []
for _ in range(8):
    layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, capturable=True)
inputs = torch.randn(steps, batch, width)
labels = torch.randint(10, (steps, batch))
batch_inputs = torch.zeros(batch, width, device="cuda")
batch_labels = torch.zeros(batch, dtype=torch.long, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(batch_inputs), batch_labels)
    loss.backward()
    optimizer.step()
    return loss


# Warm-up on a side stream, as capturing asks for.
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured_loss = step()
for number in range(steps):
    batch_inputs.copy_(inputs[number])
    batch_labels.copy_(labels[number])
    graph.replay()
    print(f"step {number} loss {captured_loss.item().hex()}")

digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().cpu().numpy().tobytes())
print(
    f"train_pytorch_graphs: torch={torch.__version__} loss={captured_loss.item():.6f} "
    f"working_set={torch.cuda.max_memory_reserved()} checksum={digest.hexdigest()[:16]}"
)
