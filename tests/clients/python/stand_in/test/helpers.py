# SPDX-License-Identifier: MIT
"""The names that tinygrad's own tests take from its test/helpers.py, which its source archive lacks."""

import unittest

from tinygrad import Device
from tinygrad.engine.jit import GraphRunner
from tinygrad.engine.realize import get_program

REAL_DEV = Device.DEFAULT


def slow(test):
    return test


def not_support_multi_device():
    return False


def needs_second_gpu(test):
    try:
        Device[f"{Device.DEFAULT}:1"]
    except Exception as error:
        return unittest.skip(f"no second device: {error}")(test)
    return test


def get_uops(sink, renderer=None):
    return get_program(sink, renderer or Device[Device.DEFAULT].renderer).uops


def assert_jit_cache_len(function, expected):
    """What the function replays, counting what a graph holds one by one."""
    items = function.captured.jit_cache if function.captured else []
    count = sum(len(i.prg.jit_cache) if isinstance(i.prg, GraphRunner) else 1 for i in items)
    assert count == expected, f"the function replays {count} items, expected {expected}"
