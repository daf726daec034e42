# SPDX-License-Identifier: MIT
# tests/clients/more and tests/clients/suites: programs and test suites of other projects, for
# `make check-clients` alone.
clients_tests := $(sort $(wildcard tests/clients/more/client_*.sh tests/clients/suites/client_*.sh))

.PHONY: more-clients run-check-clients
more-clients:
	@tests/clients/more/setup build/more

ifeq ($(filter address thread,$(SANITIZER)),)
run-check-clients: more-clients python-clients-long
endif

run-check-clients: all $(e2e_out)
	@rm -rf $(BUILD)/judges
	@SANITIZER=$(SANITIZER) BUILD=$(BUILD) TEST_TIMEOUT=7200 tests/run $(clients_tests)
	@tests/clients/judges compare $(BUILD)/judges tests/clients/README.md
