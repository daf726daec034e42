# SPDX-License-Identifier: MIT
# tests/clients/frameworks: frameworks from PyPI, unmodified, on the software GPU. They are fetched
# once, for `make check-programs` alone; a sanitizer must be in the program, so there they skip.
program_tests += $(sort $(wildcard tests/clients/frameworks/test_*.sh))
client_long_tests += $(sort $(wildcard tests/clients/frameworks/long_*.sh))

.PHONY: frameworks
frameworks:
	@tests/clients/frameworks/setup build/frameworks

ifeq ($(filter address thread,$(SANITIZER)),)
run-check-programs run-check-long: frameworks
endif
