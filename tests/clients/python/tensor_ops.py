# SPDX-License-Identifier: MIT
"""tinygrad's tensor operations against numpy, one by one; gradients against its interpreter.

tinygrad's own tests of them compare with PyTorch, which would be a large download. Prints each
difference, and "tensor_ops: passed=N failed=N" in the end.
"""

import os
import sys

import numpy
from tinygrad import Device, Tensor, dtypes

random = numpy.random.default_rng(5)


def real(*shape):
    return random.uniform(-2, 2, shape).astype(numpy.float32)


def positive(*shape):
    return random.uniform(0.1, 3, shape).astype(numpy.float32)


def unit(*shape):
    return random.uniform(-0.9, 0.9, shape).astype(numpy.float32)


def whole(*shape):
    return random.integers(-1000, 1000, shape).astype(numpy.int32)


def bits(*shape):
    return random.integers(0, 1 << 31, shape).astype(numpy.uint32)


def truth(*shape):
    return random.integers(0, 2, shape).astype(bool)


def softmax(x, axis=-1):
    powers = numpy.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def erf(x):
    """By its series, in double precision; good for |x| <= 2."""
    x = x.astype(numpy.float64)
    term, total = x.copy(), x.copy()
    for n in range(1, 60):
        term = -term * x * x / n
        total += term / (2 * n + 1)
    return total * 2 / numpy.sqrt(numpy.pi)


def convolve(x, weights, stride=1, padding=0):
    x = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = numpy.lib.stride_tricks.sliding_window_view(x, weights.shape[2:], (2, 3))
    return numpy.einsum("bihwyx,oiyx->bohw", windows[:, :, ::stride, ::stride], weights)


def pool(x, size, reduce):
    batch, channels, height, width = x.shape
    return reduce(x.reshape(batch, channels, height // size, size, width // size, size), (3, 5))


ROW = numpy.array([2, 0, 1, 2])

# name, tinygrad's form, numpy's form, inputs
CASES = [
    # one operand
    ("neg", lambda x: -x, numpy.negative, [real(45, 65)]),
    ("abs", Tensor.abs, numpy.abs, [real(45, 65)]),
    ("sign", Tensor.sign, numpy.sign, [real(45, 65)]),
    ("square", Tensor.square, numpy.square, [real(45, 65)]),
    ("reciprocal", Tensor.reciprocal, numpy.reciprocal, [positive(45, 65)]),
    ("sqrt", Tensor.sqrt, numpy.sqrt, [positive(45, 65)]),
    ("rsqrt", Tensor.rsqrt, lambda x: 1 / numpy.sqrt(x), [positive(45, 65)]),
    ("exp", Tensor.exp, numpy.exp, [real(45, 65)]),
    ("exp2", Tensor.exp2, numpy.exp2, [real(45, 65)]),
    ("log", Tensor.log, numpy.log, [positive(45, 65)]),
    ("log2", Tensor.log2, numpy.log2, [positive(45, 65)]),
    ("sin", Tensor.sin, numpy.sin, [real(45, 65)]),
    ("sin of large", Tensor.sin, numpy.sin, [numpy.float32([100, 1e4, 3e6])]),
    ("cos", Tensor.cos, numpy.cos, [real(45, 65)]),
    ("tan", Tensor.tan, numpy.tan, [unit(45, 65)]),
    ("asin", Tensor.asin, numpy.arcsin, [unit(45, 65)]),
    ("acos", Tensor.acos, numpy.arccos, [unit(45, 65)]),
    ("atan", Tensor.atan, numpy.arctan, [real(45, 65)]),
    ("sinh", Tensor.sinh, numpy.sinh, [real(45, 65)]),
    ("cosh", Tensor.cosh, numpy.cosh, [real(45, 65)]),
    ("tanh", Tensor.tanh, numpy.tanh, [real(45, 65)]),
    ("sigmoid", Tensor.sigmoid, sigmoid, [real(45, 65)]),
    ("relu", Tensor.relu, lambda x: numpy.maximum(x, 0), [real(45, 65)]),
    ("silu", Tensor.silu, lambda x: x * sigmoid(x), [real(45, 65)]),
    ("softplus", Tensor.softplus, lambda x: numpy.log1p(numpy.exp(x)), [real(45, 65)]),
    ("erf", Tensor.erf, erf, [real(45, 65)]),
    ("trunc", Tensor.trunc, numpy.trunc, [real(45, 65)]),
    ("floor", Tensor.floor, numpy.floor, [real(45, 65)]),
    ("ceil", Tensor.ceil, numpy.ceil, [real(45, 65)]),
    ("round", Tensor.round, numpy.round, [numpy.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4])]),
    ("isnan", Tensor.isnan, numpy.isnan, [numpy.float32([1, numpy.nan, numpy.inf])]),
    ("isinf", Tensor.isinf, numpy.isinf, [numpy.float32([1, numpy.nan, -numpy.inf])]),
    ("logical_not", Tensor.logical_not, numpy.logical_not, [truth(45, 65)]),
    ("bitwise_not", lambda x: ~x, numpy.invert, [whole(45, 65)]),
    # two and three
    ("add", lambda x, y: x + y, numpy.add, [real(45, 65), real(45, 65)]),
    ("add, broadcast", lambda x, y: x + y, numpy.add, [real(45, 1), real(1, 65)]),
    ("sub", lambda x, y: x - y, numpy.subtract, [real(45, 65), real(45, 65)]),
    ("mul", lambda x, y: x * y, numpy.multiply, [real(45, 65), real(65)]),
    ("div", lambda x, y: x / y, numpy.divide, [real(45, 65), positive(45, 65)]),
    ("pow", lambda x, y: x**y, numpy.power, [positive(45, 65), real(45, 65)]),
    ("maximum", Tensor.maximum, numpy.maximum, [real(45, 65), real(45, 65)]),
    ("minimum", Tensor.minimum, numpy.minimum, [real(45, 65), real(45, 65)]),
    ("floor division", lambda x, y: x // y, numpy.floor_divide, [whole(45, 65), whole(45, 65) | 1]),
    ("modulo", lambda x, y: x % y, numpy.mod, [whole(45, 65), whole(45, 65) | 1]),
    ("and", lambda x, y: x & y, numpy.bitwise_and, [whole(45, 65), whole(45, 65)]),
    ("or", lambda x, y: x | y, numpy.bitwise_or, [whole(45, 65), whole(45, 65)]),
    ("xor", lambda x, y: x ^ y, numpy.bitwise_xor, [whole(45, 65), whole(45, 65)]),
    ("left shift", lambda x: x << 3, lambda x: x << 3, [bits(45, 65) >> 4]),
    ("right shift", lambda x: x >> 3, lambda x: x >> 3, [bits(45, 65)]),
    ("less", lambda x, y: x < y, numpy.less, [whole(45, 65), whole(45, 65)]),
    ("less or equal", lambda x, y: x <= y, numpy.less_equal, [real(45, 65), real(45, 65)]),
    ("equal", lambda x, y: x == y, numpy.equal, [truth(45, 65), truth(45, 65)]),
    ("not equal", lambda x, y: x != y, numpy.not_equal, [whole(45, 65), whole(45, 65)]),
    ("where", Tensor.where, numpy.where, [truth(45, 65), real(45, 65), real(45, 65)]),
    ("clip", lambda x: x.clip(-1, 1), lambda x: numpy.clip(x, -1, 1), [real(45, 65)]),
    ("lerp", Tensor.lerp, lambda x, y, t: x + (y - x) * t, [real(9, 9), real(9, 9), unit(9, 9)]),
    # reductions and scans
    ("sum", Tensor.sum, numpy.sum, [whole(45, 65, 3)]),
    ("sum of an axis", lambda x: x.sum(1), lambda x: x.sum(1), [real(45, 65, 3)]),
    ("prod", lambda x: x.prod(0), lambda x: x.prod(0), [real(5, 65)]),
    ("max", lambda x: x.max(0), lambda x: x.max(0), [real(45, 65)]),
    ("min", lambda x: x.min(1), lambda x: x.min(1), [whole(45, 65)]),
    ("mean", Tensor.mean, numpy.mean, [real(45, 65)]),
    ("std", lambda x: x.std(1), lambda x: x.std(1, ddof=1), [real(45, 65)]),
    ("any", lambda x: x.any(0), lambda x: x.any(0), [truth(3, 65)]),
    ("all", lambda x: x.all(0), lambda x: x.all(0), [truth(3, 65)]),
    ("argmax", lambda x: x.argmax(1), lambda x: x.argmax(1), [real(45, 65)]),
    ("argmin", lambda x: x.argmin(0), lambda x: x.argmin(0), [real(45, 65)]),
    ("cumsum", lambda x: x.cumsum(1), lambda x: x.cumsum(1), [whole(5, 700)]),
    ("cumprod", lambda x: x.cumprod(0), lambda x: x.cumprod(0), [real(9, 5)]),
    ("softmax", Tensor.softmax, softmax, [real(45, 65)]),
    ("log_softmax", Tensor.log_softmax, lambda x: numpy.log(softmax(x)), [real(45, 65)]),
    ("sort", lambda x: x.sort(1)[0], lambda x: numpy.sort(x, 1), [real(4, 37)]),
    ("argsort", lambda x: x.argsort(1), lambda x: numpy.argsort(x, 1), [real(4, 37)]),
    # products
    ("dot", lambda x, y: x @ y, numpy.matmul, [real(65), real(65)]),
    ("matrix times vector", lambda x, y: x @ y, numpy.matmul, [real(45, 65), real(65)]),
    ("matmul", lambda x, y: x @ y, numpy.matmul, [real(64, 96), real(96, 80)]),
    ("matmul, odd sizes", lambda x, y: x @ y, numpy.matmul, [real(45, 65), real(65, 31)]),
    ("matmul, batched", lambda x, y: x @ y, numpy.matmul, [real(3, 17, 9), real(3, 9, 8)]),
    ("matmul of integers", lambda x, y: x @ y, numpy.matmul, [whole(20, 30), whole(30, 10)]),
    (
        "einsum",
        lambda x, y: Tensor.einsum("ij,kj->ki", x, y),
        lambda x, y: y @ x.T,
        [real(5, 7), real(6, 7)],
    ),
    ("conv2d", Tensor.conv2d, convolve, [real(2, 4, 11, 9), real(6, 4, 3, 3)]),
    (
        "conv2d, stride, padding",
        lambda x, w: x.conv2d(w, stride=2, padding=1),
        lambda x, w: convolve(x, w, 2, 1),
        [real(2, 4, 11, 9), real(6, 4, 3, 3)],
    ),
    ("max_pool2d", Tensor.max_pool2d, lambda x: pool(x, 2, numpy.max), [real(2, 3, 8, 10)]),
    ("avg_pool2d", Tensor.avg_pool2d, lambda x: pool(x, 2, numpy.mean), [real(2, 3, 8, 10)]),
    # shapes and indices
    ("reshape", lambda x: x.reshape(9, 10), lambda x: x.reshape(9, 10), [real(6, 15)]),
    (
        "permute",
        lambda x: x.permute(2, 0, 1).contiguous(),
        lambda x: x.transpose(2, 0, 1),
        [real(4, 5, 6)],
    ),
    ("flip", lambda x: x.flip(1).contiguous(), lambda x: x[:, ::-1], [whole(7, 9)]),
    (
        "pad",
        lambda x: x.pad(((1, 2), (3, 0)), value=7),
        lambda x: numpy.pad(x, ((1, 2), (3, 0)), constant_values=7),
        [real(4, 5)],
    ),
    ("slice", lambda x: x[1:6:2, -3:].contiguous(), lambda x: x[1:6:2, -3:], [real(7, 9)]),
    (
        "expand",
        lambda x: x.expand(4, 5).contiguous(),
        lambda x: numpy.broadcast_to(x, (4, 5)),
        [real(4, 1)],
    ),
    (
        "cat",
        lambda x, y: x.cat(y, dim=1),
        lambda x, y: numpy.concatenate([x, y], 1),
        [real(4, 5), real(4, 3)],
    ),
    (
        "stack",
        lambda x, y: x.stack(y),
        lambda x, y: numpy.stack([x, y]),
        [whole(4, 5), whole(4, 5)],
    ),
    ("repeat", lambda x: x.repeat(2, 3), lambda x: numpy.tile(x, (2, 3)), [real(4, 5)]),
    ("roll", lambda x: x.roll(2, 0), lambda x: numpy.roll(x, 2, 0), [real(7, 3)]),
    ("tril", Tensor.tril, numpy.tril, [real(7, 7)]),
    ("index by a list", lambda x: x[ROW.tolist()], lambda x: x[ROW], [real(3, 9)]),
    (
        "gather",
        lambda x, i: x.gather(1, i),
        lambda x, i: numpy.take_along_axis(x, i, 1),
        [real(3, 9), abs(whole(3, 5)) % 9],
    ),
    (
        "one_hot",
        lambda x: x.one_hot(10),
        lambda x: numpy.eye(10, dtype=numpy.int32)[x],
        [abs(whole(20)) % 10],
    ),
    ("arange", lambda: Tensor.arange(3, 100, 7), lambda: numpy.arange(3, 100, 7), []),
    ("eye", lambda: Tensor.eye(7).contiguous(), lambda: numpy.eye(7), []),
]

KINDS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 bool".split()

# Those whose gradient is looked at, with small inputs: the interpreter is slow.
GRADIENTS = [
    ("mul, broadcast", lambda x, y: x * y, [real(3, 5), real(5)]),
    ("div", lambda x, y: x / y, [real(3, 5), positive(3, 5)]),
    ("matmul", lambda x, y: x @ y, [real(4, 5), real(5, 3)]),
    ("exp, sin, sqrt", lambda x: x.exp() * x.sin() + x.sqrt(), [positive(3, 5)]),
    ("tanh, sigmoid, gelu", lambda x: x.tanh() + x.sigmoid() + x.gelu(), [real(3, 5)]),
    ("max of an axis", lambda x: x.max(1) ** 2, [real(4, 6)]),
    ("log_softmax", lambda x: x.log_softmax() ** 2, [real(4, 6)]),
    ("cumsum", lambda x: x.cumsum(1) ** 2, [real(3, 6)]),
    ("conv2d", lambda x, w: x.conv2d(w, padding=1) ** 2, [real(1, 2, 5, 5), real(3, 2, 3, 3)]),
    ("max_pool2d", lambda x: x.max_pool2d() ** 2, [real(1, 2, 4, 4)]),
    ("pad, slice", lambda x: (x.pad(((1, 1), (1, 1))) ** 2)[1:, :-1], [real(4, 4)]),
    ("where", lambda x: (x > 0).where(x * 2, x**2), [real(3, 5)]),
]

results = {"passed": 0, "failed": 0}


def compare(name, attempt):
    """attempt() returns what was got and expected."""
    try:
        for got, expected in attempt():
            if got.dtype.kind in "iub":
                numpy.testing.assert_array_equal(got, expected)
            else:
                loose = 1e-2 if got.dtype == numpy.float16 else 1e-4
                numpy.testing.assert_allclose(got, expected, rtol=loose, atol=loose / 10)
        results["passed"] += 1
    except Exception as error:  # of the driver, the compiler, or a difference
        results["failed"] += 1
        print(f"FAILED {name}: {type(error).__name__}: {str(error).strip()[:600]}")


def forward(function, reference, inputs):
    return lambda: [(function(*[Tensor(i) for i in inputs]).numpy(), reference(*inputs))]


def cast(source, target):
    values = numpy.arange(-20, 100) if source[0] in "if" else numpy.arange(0, 120)
    if target[0] in "ub":  # what a negative number becomes is nobody's promise
        values = abs(values)
    values = values.astype(source)
    return lambda: [(Tensor(values).cast(getattr(dtypes, target)).numpy(), values.astype(target))]


def gradient(function, inputs):
    def on(device):
        tensors = [Tensor(i, device=device, requires_grad=True) for i in inputs]
        return [g.numpy() for g in function(*tensors).sum().gradient(*tensors)]

    return lambda: list(zip(on(Device.DEFAULT), on("PYTHON")))


# tinygrad's PTX renderer makes x != x a setp.ne, which is false for a NaN (PTX ISA, "setp").
without_nan = "isnan" if os.environ.get("CUDA_PTX") == "1" else None
for name, function, reference, inputs in CASES:
    if name != without_nan:
        compare(name, forward(function, reference, inputs))
for source in KINDS:
    for target in KINDS:
        compare(f"cast of {source} to {target}", cast(source, target))
for name, function, inputs in GRADIENTS:
    compare(f"gradient of {name}", gradient(function, inputs))
print(f"tensor_ops: passed={results['passed']} failed={results['failed']}")
sys.exit(results["failed"] != 0)
