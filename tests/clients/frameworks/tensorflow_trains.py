# SPDX-License-Identifier: MIT
"""tensorflow_trains.py WHAT...: trains with TensorFlow on one GPU, in each way that is named. It
prints losses, a checksum of the final weights, and the most memory that TensorFlow had in use.
STEPS (environment, 12) is how many steps each training has, 8 at least where Keras trains."""
import hashlib
import os
import sys

import numpy as np
import keras
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "12"))


def digits(count, width):
    """Inputs of WIDTH numbers and their classes, the largest of the first ten."""
    inputs = np.random.default_rng(7).standard_normal((count, width), dtype=np.float32)
    return inputs, inputs[:, :10].argmax(axis=1).astype(np.int32)


def report(what, losses, weights):
    checksum = hashlib.sha256()
    for array in weights:
        assert np.isfinite(array).all()
        checksum.update(np.ascontiguousarray(array).tobytes())
    assert losses[-1] < losses[0] and np.isfinite(losses).all(), losses
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] >> 20
    print(f"{what} losses={losses[0]:.6f},{losses[-1]:.6f} weights={checksum.hexdigest()[:16]} "
          f"peak={peak}MiB", flush=True)
    tf.config.experimental.reset_memory_stats("GPU:0")


def dense(inputs, weights, bias):
    """A layer of TensorFlow's own kernels alone, which takes much memory."""
    return tf.reduce_sum(inputs[:, :, None] * weights[None], axis=1) + bias


def eager():
    """
    One operation after the other, with momentum; 16 MiB for each product of the first layer. The
    second layer is cuBLAS's.
    """
    random = np.random.default_rng(1)
    inputs, classes = digits(64, 64)
    shapes = (64, 1024), (1024,), (1024, 10), (10,)
    weights = [tf.Variable((random.standard_normal(shape) * 0.05).astype(np.float32))
               for shape in shapes]
    momenta = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    inputs, wanted = tf.constant(inputs), tf.one_hot(classes, 10)
    losses = []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            hidden = tf.nn.gelu(dense(inputs, *weights[:2]))
            likely = tf.nn.log_softmax(tf.matmul(hidden, weights[2]) + weights[3])
            loss = -tf.reduce_mean(tf.reduce_sum(wanted * likely, axis=1))
        for weight, momentum, gradient in zip(weights, momenta, tape.gradient(loss, weights)):
            momentum.assign(0.9 * momentum + gradient)
            weight.assign_sub(0.05 * momentum)
        losses.append(float(loss))
    report("eager", losses, [weight.numpy() for weight in weights])


def compiled():
    """Keras, each step one program of XLA; Adam, 9 MiB of weights."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((256,)),
        keras.layers.Dense(2048, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(768, activation="gelu"),
        keras.layers.Dense(10),
    ])
    model.compile(keras.optimizers.Adam(0.002), jit_compile=True,
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    told = model.fit(*digits(128, 256), batch_size=32, epochs=max(STEPS // 4, 2), verbose=0)
    report("compiled", told.history["loss"], model.get_weights())


assert tf.config.list_physical_devices("GPU"), "TensorFlow has no GPU"
for each in sys.argv[1:]:
    globals()[each]()
