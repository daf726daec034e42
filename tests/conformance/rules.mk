# SPDX-License-Identifier: MIT
# tests/conformance: answers of drivers, as transcripts; see README.md.
transcripts := $(patsubst tests/conformance/%.c,%,$(filter-out %/transcript.c %/identity.c,$(wildcard tests/conformance/*.c)))
conformance_out := $(transcripts:%=$(BUILD)/conformance/%) $(BUILD)/conformance/identity
conformance_tests := tests/conformance/test_transcripts.sh

conformance_shared := $(addprefix $(BUILD)/tests/,conformance/transcript.o clients/client.o clients/program.o)

# Linked as any CUDA program: by SONAME, so that a real driver is used where there is one; lazily,
# so that an older driver is asked what it has.
$(conformance_out): $(BUILD)/conformance/%: $(BUILD)/tests/conformance/%.o $(conformance_shared) \
		| $(BUILD)/conformance/kernels.ptx $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -Wl,-z,lazy -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1 -ldl

$(BUILD)/conformance/kernels.ptx: tests/conformance/kernels.ptx
	@mkdir -p $(@D)
	$(Q)cp $< $@

run-check: $(conformance_out)

# On a machine with a GPU: what its driver answers becomes what is expected.
.PHONY: run-record
run-record: $(conformance_out)
	@BUILD=$(BUILD) tests/conformance/record

.PHONY: ptx-conformance
ptx: ptx-conformance
ptx-conformance:
	@echo '  NVCC    tests/conformance/kernels.ptx'
	$(Q)$(NVCC) -ptx -O2 -arch=sm_75 -o tests/conformance/kernels.ptx.tmp tests/conformance/kernels.cu
	$(Q)sed 's/^\.version .*/.version 6.4/' tests/conformance/kernels.ptx.tmp >tests/conformance/kernels.ptx
	$(Q)rm tests/conformance/kernels.ptx.tmp
