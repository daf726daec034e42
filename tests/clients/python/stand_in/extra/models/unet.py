# SPDX-License-Identifier: MIT
"""Named by an import of tinygrad's test_jit.py; the one test that uses it is for CPUs alone."""


class ResBlock:
    pass
