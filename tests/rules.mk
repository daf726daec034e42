# SPDX-License-Identifier: MIT
# tests/: the rules that run all tests. Each test is a program or script: 0 pass, 77 skip, else
# fail.
include tests/softgpu/rules.mk
include tests/clients/rules.mk
include tests/clients/samples/rules.mk
include tests/unit/rules.mk
include tests/e2e/rules.mk
include tests/bench/rules.mk
include tests/conformance/rules.mk
include tests/gpu/rules.mk
include tests/fuzz/rules.mk
include tests/chaos/rules.mk
include tests/cluster/rules.mk
include tests/house/rules.mk
include tests/packages/rules.mk

# Of every day, and what downloads packages. ROOM=core/memory/move: of both, those that concern that
# room. Tests that concern a module that is not built in are left out (make check MODULES=).
day_tests = $(unit_out) $(fuzz_out) $(e2e_tests) $(softgpu_tests) $(client_tests) $(gpu_tests) $(conformance_tests) $(chaos_tests) \
	$(bench_tests) $(house_tests)
of_room = $(if $(ROOM),$(shell BUILD=$(BUILD) tests/house/tests_of $(ROOM) $(1)),$(1))
selected = $(if $(filter-out $(MODULES),$(all_modules)),$(shell \
	BUILD=$(BUILD) tests/house/tests_of --built-in '$(MODULES)' $(call of_room,$(1))),$(call of_room,$(1)))

.PHONY: run-check
run-check: all $(filter $(unit_out) $(fuzz_out),$(call selected,$(unit_out) $(fuzz_out))) $(e2e_out) $(chaos_out) $(gpu_out)
	@SANITIZER=$(SANITIZER) BUILD=$(BUILD) MODULES='$(MODULES)' tests/run $(call selected,$(day_tests))

.PHONY: run-check-softgpu
run-check-softgpu: all $(filter $(BUILD)/%,$(softgpu_tests)) $(samples_out)
	@SANITIZER=$(SANITIZER) BUILD=$(BUILD) tests/run $(softgpu_tests)

.PHONY: run-check-programs
run-check-programs: all $(e2e_out)
	@rm -rf $(BUILD)/judges
	@SANITIZER=$(SANITIZER) BUILD=$(BUILD) MODULES='$(MODULES)' MUST_RUN='$(if $(JUDGES),$(judges_must_run))' \
		tests/run $(call selected,$(program_tests))
	@tests/clients/judges compare $(BUILD)/judges README.md

.PHONY: run-check-cluster
run-check-cluster: all slurm $(e2e_out)
	@SANITIZER=$(SANITIZER) BUILD=$(BUILD) MODULES='$(MODULES)' tests/run $(call selected,$(cluster_tests))

# What takes too long for every day. Tests may leave lines in the report.
.PHONY: run-check-long
run-check-long: all slurm $(e2e_out) $(chaos_out) run-dist
	@rm -f $(BUILD)/clients/report
	@SANITIZER=$(SANITIZER) BUILD=$(BUILD) TEST_TIMEOUT=3600 tests/run $(e2e_long_tests) $(chaos_long_tests) \
		$(client_long_tests) $(cluster_long_tests) $(package_long_tests); status=$$?; \
		[ ! -e $(BUILD)/clients/report ] || cat $(BUILD)/clients/report; exit $$status

.PHONY: run-demo
run-demo:
	@BUILD=$(BUILD) MAKE='$(MAKE)' tests/progress 'Building' demo-out
	@BUILD=$(BUILD) tests/demo

.PHONY: demo-out
demo-out: $(shim_out) $(tools_out) $(softgpu_lib) $(BUILD)/softgpu/libcuda.so $(BUILD)/clients/train_mlp
