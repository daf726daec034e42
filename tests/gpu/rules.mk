# tests/gpu: what only a real GPU can show, and the probe, which asks any driver.
gpu_out := $(BUILD)/gpu/probe $(BUILD)/gpu/probe_kernels.ptx
gpu_tests := tests/gpu/test_probe.sh
gpu_only_tests := $(wildcard tests/gpu/check_*.sh)

probe_src := $(wildcard tests/gpu/probe*.c) tests/clients/program.c

$(BUILD)/gpu/probe: $(probe_src:%.c=$(BUILD)/%.o)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

$(BUILD)/gpu/probe_kernels.ptx: tests/gpu/probe_kernels.ptx
	@mkdir -p $(@D)
	$(Q)cp $< $@

.PHONY: run-check-gpu
run-check-gpu: all $(gpu_out)
	@tests/gpu/machine
	@BUILD=$(BUILD) SANITIZER=$(SANITIZER) NVCC=$(NVCC) TEST_TIMEOUT=600 tests/run $(gpu_only_tests)
