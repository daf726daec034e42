# tests/gpu: what only a real GPU can show, and the probe, which asks any driver.
gpu_out := $(addprefix $(BUILD)/gpu/,probe probe_kernels.ptx device_free utilisation)
gpu_tests := tests/gpu/test_probe.sh
gpu_only_tests := $(wildcard tests/gpu/check_*.sh)

# What the probe and the questions stand on.
gpu_ground := $(addprefix $(BUILD)/tests/,gpu/gpu.o gpu/apart.o clients/program.o)
probe_src := $(wildcard tests/gpu/probe*.c)

$(BUILD)/gpu/probe: $(probe_src:%.c=$(BUILD)/%.o) $(gpu_ground)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

$(BUILD)/gpu/device_free: $(BUILD)/tests/gpu/device_free.o | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1

$(BUILD)/gpu/utilisation: $(BUILD)/tests/gpu/utilisation.o
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

$(BUILD)/gpu/probe_kernels.ptx: tests/gpu/probe_kernels.ptx
	@mkdir -p $(@D)
	$(Q)cp $< $@

# GPU=soft tries the scripts on the software GPU. They use programs of the other tests.
.PHONY: run-check-gpu
run-check-gpu: all $(gpu_out) $(elastic_clients) $(addprefix $(BUILD)/,tests/e2e/allocate tests/e2e/restless bench/steps)
	@tests/gpu/machine
	@BUILD=$(BUILD) SANITIZER=$(SANITIZER) NVCC=$(NVCC) GPU=$(GPU) TEST_TIMEOUT=600 tests/run $(gpu_only_tests)
