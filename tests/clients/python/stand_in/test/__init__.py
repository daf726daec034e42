# SPDX-License-Identifier: MIT
"""Makes tinygrad's tests a package, which is found before Python's own of this name."""
