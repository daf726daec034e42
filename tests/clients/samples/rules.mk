# SPDX-License-Identifier: MIT
# tests/clients/samples: small programs over the driver API, each with its kernels beside it.
samples := $(patsubst tests/clients/samples/%.c,%,$(filter-out %/sample.c,$(wildcard tests/clients/samples/*.c)))
samples_cu := $(wildcard tests/clients/samples/*.cu)
samples_out := $(samples:%=$(BUILD)/clients/samples/%)
client_tests += tests/clients/samples/test_samples.sh

samples_beside := $(samples_cu:tests/%.cu=$(BUILD)/%.ptx)
samples_shared := $(addprefix $(BUILD)/tests/clients/,samples/sample.o client.o program.o)

# The references on the host round as the kernels do: nothing is contracted unless it says fma.
cflags_tests_clients_samples_ := -ffp-contract=off

$(samples_out): $(BUILD)/clients/samples/%: $(BUILD)/tests/clients/samples/%.o $(samples_shared) \
		| $(samples_beside) $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1 -lm

run-check: $(samples_out)

# make ptx: compile the kernels again (needs nvcc). What is linked has names to resolve.
nvcc_flags_link_scale := -rdc=true
nvcc_flags_link_shape := -rdc=true

.PHONY: ptx-client-samples $(samples_cu:%.cu=nvcc-%)
ptx: ptx-client-samples
ptx-client-samples: $(samples_cu:%.cu=nvcc-%)
$(samples_cu:%.cu=nvcc-%): nvcc-%:
	@echo '  NVCC    $*.ptx'
	$(Q)$(NVCC) -ptx -O2 -arch=sm_75 $(nvcc_flags_$(notdir $*)) -o $*.ptx.tmp $*.cu
	$(Q)sed 's/^\.version .*/.version 6.4/' $*.ptx.tmp >$*.ptx && rm $*.ptx.tmp
