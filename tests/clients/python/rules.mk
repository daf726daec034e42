# SPDX-License-Identifier: MIT
# tests/clients/python: public Python programs on the software GPU. Their packages are fetched once,
# for `make check-programs` and the long forms alone; a sanitizer must be in the program, so there
# they skip.
python_tests := $(sort $(wildcard tests/clients/python/test_*.sh))
program_tests += $(python_tests)
client_long_tests += $(sort $(wildcard tests/clients/python/long_*.sh))

.PHONY: python-clients python-clients-long
python-clients:
	@tests/clients/python/setup build/python
python-clients-long:
	@tests/clients/python/setup build/python long

ifeq ($(filter address thread,$(SANITIZER)),)
run-check-programs: python-clients
run-check-long: python-clients-long
endif
