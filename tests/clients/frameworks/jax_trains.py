# SPDX-License-Identifier: MIT
"""jax_trains.py WHAT[:STEPS]...: trains with JAX on one GPU, in each way that is named. It prints
losses, a checksum of the final weights and the most memory that XLA had in use. Then come the
number of steps and the mean time of one in milliseconds. MARKS names a file that gets a line
"NS mark DURATION_NS" at the end of each step, of Keras at the end of each epoch of four."""
import hashlib
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 0
MARKS = open(os.environ.get("MARKS", os.devnull), "w", encoding="ascii", buffering=1)


def mark(begin):
    """Returns the seconds of a step that began then."""
    end = time.monotonic()
    MARKS.write(f"{end * 1e9:.0f} mark {(end - begin) * 1e9:.0f}\n")
    return end - begin


def finish(what, losses, weights, times):
    checksum = hashlib.sha256()
    for array in jax.tree.leaves(weights):
        host = np.asarray(array)
        assert np.isfinite(host.astype(np.float32)).all()
        checksum.update(host.tobytes())
    assert np.isfinite(losses).all() and losses[-1] < losses[0], losses
    peak = jax.devices()[0].memory_stats()["peak_bytes_in_use"] >> 20
    print(f"{what} losses={losses[0]:.6f},{losses[-1]:.6f} weights={checksum.hexdigest()[:16]} "
          f"peak={peak}MiB steps={len(losses)} step={1000 * np.mean(times):.3f}ms", flush=True)


def train(what, step, state, batch):
    """Steps until the end. The first one compiles and is not timed."""
    losses, times = [], []
    for i in range(STEPS):
        begin = time.monotonic()
        *state, loss = step(*state, *batch, jax.random.key(i))
        losses.append(float(loss))
        times.append(mark(begin))
    finish(what, losses, state[0], times[1:] or times)


def mlp():
    """Three layers and momentum. MIB (environment) of weights, the momenta as much again."""
    wide = 256 * max(int(os.environ.get("MIB", "6")) // 2, 1)
    random = np.random.default_rng(7)
    shapes = (256, wide), (wide, 768), (768, 10)
    weights = [jnp.asarray(random.standard_normal(s, dtype=np.float32) * 0.05) for s in shapes]
    inputs = jnp.asarray(random.standard_normal((16, 256), dtype=np.float32))
    classes = jnp.argmax(inputs[:, :10], axis=1)

    def loss_of(weights, inputs, classes):
        hidden = jax.nn.relu(inputs @ weights[0])
        hidden = jax.nn.gelu(hidden @ weights[1])
        return optax.softmax_cross_entropy_with_integer_labels(hidden @ weights[2], classes).mean()

    @jax.jit
    def step(weights, momenta, inputs, classes, _):
        loss, slopes = jax.value_and_grad(loss_of)(weights, inputs, classes)
        momenta = [0.9 * momentum + slope for momentum, slope in zip(momenta, slopes)]
        return [w - 0.01 * m for w, m in zip(weights, momenta)], momenta, loss

    train("mlp", step, [weights, [jnp.zeros_like(w) for w in weights]], (inputs, classes))


def transformer(what, dtype):
    """Flax: attention, dropout, LayerNorm, GELU; AdamW with clipping."""
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.LayerNorm(dtype=dtype)(x)
            x += nn.MultiHeadDotProductAttention(num_heads=4, dtype=dtype, param_dtype=dtype)(y)
            y = nn.Dense(512, dtype=dtype, param_dtype=dtype)(nn.LayerNorm(dtype=dtype)(x))
            y = nn.Dense(128, dtype=dtype, param_dtype=dtype)(nn.gelu(y))
            return x + nn.Dropout(0.1, deterministic=False)(y)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(8192, 128, dtype=dtype, param_dtype=dtype)(tokens)
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(256, dtype=dtype, param_dtype=dtype)(x)

    model = Model()
    tokens = jnp.asarray(np.random.default_rng(5).integers(0, 256, (2, 16)))
    keys = {"params": jax.random.key(1), "dropout": jax.random.key(2)}
    weights = jax.jit(model.init)(keys, tokens)
    adam = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-3))

    @jax.jit
    def step(weights, moments, tokens, key):
        def loss_of(weights):
            told = model.apply(weights, tokens, rngs={"dropout": key}).astype(jnp.float32)
            return optax.softmax_cross_entropy_with_integer_labels(told, tokens).mean()

        loss, slopes = jax.value_and_grad(loss_of)(weights)
        changes, moments = adam.update(slopes, moments, weights)
        return optax.apply_updates(weights, changes), moments, loss

    train(what, step, [weights, jax.jit(adam.init)(weights)], (tokens,))


def layers():
    """Keras on JAX: attention, normalization of batches, dropout, Adam."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    keras.utils.set_random_seed(3)
    inputs = keras.Input((256,))
    x = keras.layers.Dense(2048, activation="relu")(inputs)
    x = keras.layers.Dropout(0.1)(keras.layers.BatchNormalization()(x))
    x = keras.layers.Reshape((16, 128))(x)
    x += keras.layers.MultiHeadAttention(4, 32)(x, x)
    outputs = keras.layers.Dense(10)(keras.layers.Flatten()(keras.layers.LayerNormalization()(x)))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.002),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    class Marks(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.begin = time.monotonic()

        def on_epoch_end(self, epoch, logs=None):
            mark(self.begin)

    random = np.random.default_rng(7).standard_normal((64, 256), dtype=np.float32)
    begin = time.monotonic()
    told = model.fit(random, random[:, :10].argmax(axis=1), batch_size=16, epochs=STEPS // 2,
                     verbose=0, callbacks=[Marks()] if "MARKS" in os.environ else None)
    losses = told.history["loss"]
    finish("keras", losses, model.get_weights(), [(time.monotonic() - begin) / len(losses)])


WAYS = {"mlp": mlp,
        "keras": layers,
        "fp32": lambda: transformer("fp32", jnp.float32),
        "bf16": lambda: transformer("bf16", jnp.bfloat16)}
assert jax.default_backend() == "gpu", "JAX has no GPU"
for each in sys.argv[1:]:
    each, _, steps = each.partition(":")
    STEPS = int(steps or os.environ.get("STEPS", "6"))
    WAYS[each]()
