# SPDX-License-Identifier: MIT
"""torch_trains.py: trains a network with torch.compile, forward, backward and AdamW in one graph.

PyTorch's eager kernels are machine code, so all that computes on the device is compiled; copies are
not kernels. The same steps run eagerly on the CPU: losses and weights have to agree. Prints losses,
a checksum of the final weights on the device, and the most memory that PyTorch reserved in steps.
"""
import hashlib
import os

import torch
import torch._inductor.config

STEPS, BATCH = int(os.environ.get("STEPS", "5")), 16
# MIB (environment) of weights, and of each of AdamW's averages
WIDTHS = 256, 256 * int(os.environ.get("MIB", "4")), 768, 10
torch._inductor.config.joint_graph_constant_folding = False


def new_weights():
    torch.manual_seed(3)
    weights = []
    for width, wider in zip(WIDTHS, WIDTHS[1:]):
        weights += [torch.randn(width, wider) * width ** -0.5, torch.zeros(wider),
                    torch.ones(wider), torch.zeros(wider)]
    return weights


def loss_of(weights, inputs, wanted):
    """A layer is a product, LayerNorm and GELU; the last one is the product alone."""
    hidden = inputs
    for i in range(0, len(weights), 4):
        product, bias, scale, shift = weights[i:i + 4]
        hidden = hidden @ product + bias
        if i + 4 < len(weights):
            hidden = torch.nn.functional.layer_norm(hidden, hidden.shape[1:], scale, shift)
            hidden = torch.nn.functional.gelu(hidden)
    return -(wanted * torch.log_softmax(hidden, 1)).sum(1).mean()


def step(weights, means, squares, correction, inputs, wanted):
    """One step of AdamW; CORRECTION has what its two averages are divided by."""
    gradients, loss = torch.func.grad_and_value(loss_of)(weights, inputs, wanted)
    means = [0.9 * mean + 0.1 * gradient for mean, gradient in zip(means, gradients)]
    squares = [0.999 * square + 0.001 * gradient ** 2
               for square, gradient in zip(squares, gradients)]
    weights = [weight * (1 - 1e-3 * 0.01) - 1e-3 * (mean / correction[0]) /
               ((square / correction[1]).sqrt() + 1e-6)
               for weight, mean, square in zip(weights, means, squares)]
    return weights, means, squares, loss


def train(one_step, device):
    weights = [weight.to(device) for weight in new_weights()]
    means, squares = ([torch.zeros(weight.shape).to(device) for weight in weights]
                      for _ in range(2))
    inputs = torch.randn(BATCH, WIDTHS[0])
    wanted = torch.nn.functional.one_hot(inputs[:, :10].argmax(1), 10).float().to(device)
    inputs, losses = inputs.to(device), []
    for i in range(1, STEPS + 1):
        correction = torch.tensor([1 - 0.9 ** i, 1 - 0.999 ** i]).to(device)
        weights, means, squares, loss = one_step(weights, means, squares, correction, inputs, wanted)
        losses.append(float(loss.cpu()))
    return losses, [weight.cpu() for weight in weights]


def main():
    losses, weights = train(torch.compile(step, fullgraph=True, dynamic=False), "cuda")
    expected, expected_weights = train(step, "cpu")
    off = max(abs(a - b) for a, b in zip(losses, expected))
    moved = max(float((a - b).abs().max()) for a, b in zip(weights, expected_weights))
    assert off < 1e-5 and moved < 1e-3 and losses[-1] < losses[0], (off, moved, losses, expected)
    checksum = hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in weights))
    peak = torch.cuda.max_memory_reserved() >> 20
    print(f"losses={losses[0]:.6f},{losses[-1]:.6f} off={off:.1e} weights_off={moved:.1e} "
          f"weights={checksum.hexdigest()[:16]} peak={peak}MiB", flush=True)


main()
