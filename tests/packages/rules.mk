# SPDX-License-Identifier: MIT
# tests/packages: each package, judged by the tools of its kind and installed where it is meant to
# be. They need packages (tools/dev/deps packages) and root, for the folder of an older system.
package_long_tests := $(sort $(wildcard tests/packages/long_*.sh))
package_tests := $(sort $(wildcard tests/packages/test_*.sh))

.PHONY: run-check-packages
run-check-packages: run-dist run-wheel run-deb run-site
	@BUILD=$(BUILD) tests/run $(call selected,$(package_tests))
