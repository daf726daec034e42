# SPDX-License-Identifier: MIT
# tests/house: the code against the statements about it.
house_tests := $(wildcard tests/house/test_*)
