# SPDX-License-Identifier: MIT
# tests/clients: programs that know CUDA and nothing of Spillway, with their data beside them.
clients_out := $(addprefix $(BUILD)/clients/,train_mlp gpu_busy pace_load)
client_tests := $(addprefix tests/clients/,test_judges.sh test_train.sh suites/test_compare.sh)

clients_beside := $(addprefix $(BUILD)/clients/,train_kernels.ptx busy_kernels.ptx digits.csv)
client_objects = $(patsubst %,$(BUILD)/tests/clients/%.o,$(1) client program)

$(BUILD)/clients/train_mlp: $(call client_objects,train_mlp digits)
$(BUILD)/clients/gpu_busy: $(call client_objects,gpu_busy)
$(BUILD)/clients/pace_load: $(call client_objects,pace_load pace_queue pace_ranks)

# Linked against the software GPU, but by SONAME alone: where there is a real driver, that is used.
$(clients_out): $(old_start) | $(clients_beside) $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1 -lm $(old_glibc_libs)

$(BUILD)/clients/%.ptx: tests/clients/%.ptx
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(BUILD)/clients/digits.csv: tests/clients/data/digits.csv
	@mkdir -p $(@D)
	$(Q)cp $< $@

# The checked-in PTX, again. ptxas and the drivers' compilers judge it by the version it names:
# nvcc writes its own, which older drivers refuse, although nothing in these files is that new.
ptx_out := tests/clients/train_kernels.ptx tests/clients/busy_kernels.ptx \
	tests/gpu/probe_kernels.ptx tests/softgpu/cublas/kernels.ptx
NVCC ?= $(shell command -v nvcc || echo $(or $(CUDA_HOME),/usr/local/cuda)/bin/nvcc)

.PHONY: ptx
ptx:
	@command -v $(NVCC) >/dev/null || { echo 'make ptx: there is no nvcc: put that of a CUDA' \
		'toolkit on PATH, or set NVCC=/path/to/nvcc' >&2; exit 1; }
	$(Q)for ptx in $(ptx_out); do \
		echo "  NVCC    $$ptx"; \
		$(NVCC) -ptx -O2 -I. -arch=sm_75 -o $$ptx.tmp $${ptx%.ptx}.cu && \
		sed 's/^\.version .*/.version 6.4/' $$ptx.tmp >$$ptx && rm $$ptx.tmp || exit 1; \
	done

# With JUDGES=all, as in .ci/run, `make check-programs` fails unless each of these ran.
judges_must_run := $(patsubst %,clients/%.sh,frameworks/test_jax frameworks/test_tensorflow \
	frameworks/test_torch_trains frameworks/test_triton python/test_tinygrad python/test_numba)

include tests/clients/python/rules.mk
include tests/clients/frameworks/rules.mk
include tests/clients/more/rules.mk
