# SPDX-License-Identifier: MIT
# tests/gpu: tests of facts that only a real GPU can show, and the probe, which asks any driver.
gpu_out := $(addprefix $(BUILD)/gpu/,probe probe_kernels.ptx device_free utilisation)
gpu_tests := tests/gpu/test_probe.sh tests/gpu/test_needs.sh tests/gpu/test_reports.sh
gpu_only_tests := $(wildcard tests/gpu/check_*.sh)

# What the probe and the questions stand on.
gpu_ground := $(addprefix $(BUILD)/tests/,gpu/gpu.o gpu/apart.o clients/program.o)
probe_src := $(wildcard tests/gpu/probe*.c)

$(BUILD)/gpu/probe: $(probe_src:%.c=$(BUILD)/%.o) $(gpu_ground)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

# The questions, and the kernels that lie beside them.
question_src := $(wildcard tests/gpu/questions/*.c)
question_ptx := $(notdir $(wildcard tests/gpu/questions/*.ptx))
gpu_out += $(addprefix $(BUILD)/gpu/,$(addprefix questions/,ask $(question_ptx)) broken/libcuda.so.1)
gpu_tests += tests/gpu/test_questions.sh

$(BUILD)/gpu/questions/ask: $(question_src:%.c=$(BUILD)/%.o) $(gpu_ground)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

$(BUILD)/gpu/questions/%.ptx: tests/gpu/questions/%.ptx
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(BUILD)/gpu/broken/libcuda.so.1: $(BUILD)/tests/gpu/broken_driver.o
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-soname,libcuda.so.1 -o $@ $^

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

.PHONY: ptx-questions
ptx: ptx-questions
ptx-questions: # file:architecture:PTX version
	$(Q)for each in kernels:sm_75:6.4 kernels_texture:sm_75:6.4 kernels_90:sm_90:8.1; do \
		file=tests/gpu/questions/$${each%%:*} rest=$${each#*:}; \
		echo "  NVCC    $$file.ptx"; \
		$(NVCC) -ptx -O2 -arch=$${rest%:*} -o $$file.ptx.tmp $$file.cu && \
		sed "s/^\.version .*/.version $${rest#*:}/" $$file.ptx.tmp >$$file.ptx && rm $$file.ptx.tmp || exit 1; \
	done

# Programs of nvcc, where there is that of CUDA 13: PTX alone, so that any GPU takes them, and the
# software GPU takes the one with the shared runtime (not packed, because it unpacks by a library).
# That one's runtime lies beside it.
cudart_library := $(if $(SANITIZER)$(CROSS),,$(wildcard $(dir $(realpath $(NVCC)))../lib64/libcudart.so.13))
has_nvcc := $(if $(cudart_library),yes)
cudart_programs := $(if $(has_nvcc),$(addprefix $(BUILD)/gpu/cudart_blocks_,static shared))
$(BUILD)/gpu/cudart_blocks_%: tests/gpu/cudart_blocks.cu
	$(call say,NVCC)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -O2 -arch=compute_75 -no-compress -cudart $* $(NVCC_LDFLAGS) -Xcompiler -static-libstdc++,-static-libgcc \
		-Xlinker -rpath='$$ORIGIN' -o $@ $<
	$(Q)cp -L $(cudart_library) $@.runtime && mv -f $@.runtime $(@D)/$(notdir $(cudart_library))

# GPU=soft tries the scripts on the software GPU, RESULTS=FOLDER keeps what they leave. They use
# programs of the other tests.
.PHONY: run-check-gpu
run-check-gpu: all $(gpu_out) $(cudart_programs) $(elastic_clients) $(conformance_out) \
		$(addprefix $(BUILD)/,tests/e2e/allocate tests/e2e/restless tests/e2e/proc_addresses bench/steps bench/engine gpu/address_requests.tsv)
	@tests/gpu/machine
	@BUILD=$(BUILD) SANITIZER=$(SANITIZER) NVCC=$(NVCC) GPU=$(GPU) TEST_TIMEOUT=600 tests/run $(gpu_only_tests)

include tests/gpu/kit/rules.mk
