# SPDX-License-Identifier: MIT
"""Trains a small network on the handwritten digits with tinygrad and says how it went.

An ordinary tinygrad program: device, renderer and graphs are chosen by tinygrad's own environment
(DEV, CUDA_PTX, JIT). The same seed gives the same weights; `checksum` is over their bytes.
"""

import argparse
import hashlib

import numpy
from tinygrad import Device, GlobalCounters, Tensor, TinyJit, nn

BATCH = 128


class Network:
    def __init__(self, hidden):
        self.first = nn.Linear(64, hidden)
        self.second = nn.Linear(hidden, 10)

    def __call__(self, x):
        return self.second(self.first(x).relu())


def read_digits(path):
    rows = numpy.loadtxt(path, delimiter=",", dtype=numpy.int32)
    rows = rows[numpy.random.default_rng(7).permutation(len(rows))]  # the same split for every seed
    pixels = (rows[:, :64] / 16).astype(numpy.float32)
    return pixels[:1408], rows[:1408, 64], pixels[1408:], rows[1408:, 64]


def checksum(network):
    total = hashlib.sha256()
    for name, weights in sorted(nn.state.get_state_dict(network).items()):
        total.update(name.encode() + weights.numpy().tobytes())
    return total.hexdigest()[:16]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("digits", help="the digits, one a line: 64 pixels and the label")
    options.add_argument("--epochs", type=int, default=14)
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--devices", type=int, default=1)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()

    names = [f"{Device.DEFAULT}:{i}" for i in range(options.devices)]

    def place(tensor, axis):
        return tensor.to(names[0]) if len(names) == 1 else tensor.shard(names, axis)

    Tensor.manual_seed(options.seed)
    train_x, train_y, test_x, test_y = read_digits(options.digits)
    network = Network(options.hidden)
    for weights in nn.state.get_parameters(network):
        weights.replace(place(weights, None)).realize()
    optimizer = nn.optim.Adam(nn.state.get_parameters(network), lr=0.01)

    @TinyJit
    def step(x, y):
        optimizer.zero_grad()
        loss = network(x).sparse_categorical_crossentropy(y).backward()
        optimizer.step()
        return loss.realize()

    generator = numpy.random.default_rng(options.seed)
    steps = 0
    with Tensor.train():
        for epoch in range(options.epochs):
            order = generator.permutation(len(train_x))
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                x = place(Tensor(train_x[batch]), 0).realize()
                y = place(Tensor(train_y[batch]), 0).realize()
                loss = step(x, y)
                steps += 1
            if epoch == 0 or epoch == options.epochs - 1:
                print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)

    guesses = network(place(Tensor(test_x), None)).argmax(axis=1).numpy()
    accuracy = 100 * (guesses == test_y).mean()
    print(
        f"train_digits: accuracy={accuracy:.2f} checksum={checksum(network)} steps={steps}"
        f" device={names[0]} renderer={type(Device[names[0]].renderer).__name__}"
        f" memory={GlobalCounters.mem_used}"
    )


main()
