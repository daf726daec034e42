# SPDX-License-Identifier: MIT
"""Trains with tinygrad in the ways that programs loop, and says how long a step took.

A step is one run of the optimizer. With `--marks` (MARKS) each step's end is written down as "NS
mark DURATION_NS", by the clock that the software GPU's trace has. Validations are not part of
steps. JIT=1 makes steps graphs."""

import argparse
import os
import time

import numpy
from tinygrad import Tensor, TinyJit, nn


class Mlp:
    def __init__(self, width):
        self.layers = [nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 10)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


class Convolutions:
    def __init__(self, width):
        self.first, self.second = nn.Conv2d(1, width, 3), nn.Conv2d(width, width, 3)
        self.norm = nn.LayerNorm(width * 4)
        self.last = nn.Linear(width * 4, 10)

    def __call__(self, x):
        x = self.first(x.reshape(-1, 1, 8, 8)).relu().max_pool2d()
        x = self.second(x.pad(((0, 0), (0, 0), (1, 1), (1, 1)))).gelu()
        return self.last(self.norm(x.max_pool2d(kernel_size=(2, 2), stride=1).flatten(1)))


class Attention:
    def __init__(self, width):
        self.embed = nn.Linear(8, width)
        self.blocks = [
            (nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)) for _ in range(2)
        ]
        self.last = nn.Linear(width, 10)

    def __call__(self, x):
        x = self.embed(x.reshape(-1, 8, 8))
        for norm, qkv, out in self.blocks:
            q, k, v = qkv(norm(x)).chunk(3, dim=-1)
            x = x + out(q.scaled_dot_product_attention(k, v))
        return self.last(x.mean(axis=1))


MODELS = {"mlp": Mlp, "convolutions": Convolutions, "attention": Attention}
OPTIMIZERS = {"sgd": lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9), "adam": lambda p: nn.optim.Adam(p, lr=0.003)}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("digits", help="the digits, one a line: 64 pixels and the label")
    options.add_argument("--model", choices=MODELS, default="mlp")
    options.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    options.add_argument("--width", type=int, default=16)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    options.add_argument("--validate", type=int, default=0, help="steps from one validation to the next")
    options.add_argument("--validation-batches", type=int, default=3)
    options.add_argument("--skip", type=float, default=0, help="share of steps that leave the optimizer out")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--marks", default=os.environ.get("MARKS", os.devnull), help="file for the ends of steps")
    options = options.parse_args()

    rows = numpy.loadtxt(options.digits, delimiter=",", dtype=numpy.int32)
    pixels, labels = (rows[:, :64] / 16).astype(numpy.float32), rows[:, 64]
    generator = numpy.random.default_rng(options.seed)
    Tensor.manual_seed(options.seed)
    network = MODELS[options.model](options.width)
    optimizer = OPTIMIZERS[options.optimizer](nn.state.get_parameters(network))
    for parameter in optimizer.params:
        parameter.grad = parameter.zeros_like().contiguous().realize()

    @TinyJit
    def whole(x, y):
        optimizer.zero_grad()
        loss = network(x).sparse_categorical_crossentropy(y).backward()
        optimizer.step()
        return loss.realize()

    @TinyJit
    def micro(x, y):
        loss = network(x).sparse_categorical_crossentropy(y)
        gradients = loss.gradient(*optimizer.params)
        for parameter, gradient in zip(optimizer.params, gradients):
            parameter.grad.assign(parameter.grad + gradient)
        Tensor.realize(loss, *[parameter.grad for parameter in optimizer.params])
        return loss

    @TinyJit
    def apply():
        optimizer.step()
        for parameter in optimizer.params:
            parameter.grad.assign(parameter.grad * 0).realize()

    @TinyJit
    def validate(x, y):
        return (network(x).argmax(axis=1) == y).mean().realize()

    def draw():
        chosen = generator.integers(0, len(rows), options.batch)
        return Tensor(pixels[chosen]).realize(), Tensor(labels[chosen]).realize()

    durations = []
    separate = options.accumulate > 1 or options.skip > 0
    with Tensor.train(), open(options.marks, "w", encoding="ascii", buffering=1) as marks:
        for number in range(options.steps):
            start = time.monotonic_ns()
            if separate:
                for _ in range(options.accumulate):
                    loss = micro(*draw())
                if generator.random() >= options.skip:
                    apply()
            else:
                loss = whole(*draw())
            value = loss.item()
            end = time.monotonic_ns()
            durations.append(end - start)
            marks.write(f"{end} mark {end - start}\n")
            if options.validate and number % options.validate == options.validate - 1:
                right = [validate(*draw()).item() for _ in range(options.validation_batches)]
                print(f"step {number + 1}: loss {value:.4f}, right {numpy.mean(right):.3f}", flush=True)
    step_ms = numpy.mean(durations) / 1e6
    print(f"train_steps: steps={len(durations)} step_ms={step_ms:.3f} loss={value:.4f}")


main()
