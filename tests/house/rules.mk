# SPDX-License-Identifier: MIT
# tests/house: the code against what is said of it.
house_tests := $(wildcard tests/house/test_*)
