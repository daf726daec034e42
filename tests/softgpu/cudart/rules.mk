# SPDX-License-Identifier: MIT
# tests/softgpu/cudart: libcudart.so.13 and .12, for programs that load the runtime by name, and
# their clients. One source makes both: CUDART_MAJOR says for which.
cudart_src := $(wildcard tests/softgpu/cudart/*.c)
cudart_13_obj := $(cudart_src:%.c=$(BUILD)/%.o)
cudart_12_obj := $(cudart_src:tests/softgpu/%.c=$(BUILD)/tests/softgpu/12/%.o)
cudart_libs := $(BUILD)/softgpu/libcudart.so.13 $(BUILD)/softgpu/libcudart.so.12
softgpu_out += $(cudart_libs)

# Last: what the runtime's headers need, where they come without the folder crt.
cppflags_cudart := -idirafter tests/softgpu/cudart/compat
cppflags_tests_softgpu_cudart_ := $(cppflags_cudart) -DCUDART_MAJOR=13

# compile_12: as any source, for the runtime of CUDA 12.
compile_12 = $(Q)$(CC) $(old_glibc) $(all_cppflags) $(cppflags_cudart) -DCUDART_MAJOR=12 \
	$(all_cflags) -MMD -MP -c -o $@ $<

$(BUILD)/tests/softgpu/12/%.o: tests/softgpu/%.c | $(BUILD)/cuda.mk
	$(call say,CC)
	@mkdir -p $(@D)
	$(compile_12)

$(BUILD)/softgpu/libcudart.so.13: $(cudart_13_obj)
$(BUILD)/softgpu/libcudart.so.12: $(cudart_12_obj)
$(cudart_libs): $(BUILD)/softgpu/libcudart.so.%: tests/softgpu/cudart/exports.def
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q){ echo 'libcudart.so.$* { global:'; sed -n 's/^X\($*\)*(\(.*\))$$/\2;/p' $<; \
		echo 'local: *; };'; } >$@.map
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,libcudart.so.$* -Wl,--version-script=$@.map \
		$(all_ldflags) -o $@ $(cudart_$*_obj) $(old_glibc_libs) && rm $@.map

# Programs without nvcc: one registers checked-in images as nvcc's start-up code does, for either
# library; one compares what either writes with layouts.def.
cudart_clients := $(addprefix $(BUILD)/clients/cudart/,registered registered_12 layouts)
softgpu_out += $(cudart_clients)
cppflags_tests_clients_cudart_ := $(cppflags_tests_softgpu_cudart_)

$(BUILD)/tests/clients/cudart/registered_12.o: tests/clients/cudart/registered.c | $(BUILD)/cuda.mk
	$(call say,CC)
	@mkdir -p $(@D)
	$(compile_12) -include tests/softgpu/cudart/cuda12.h

$(cudart_clients): $(BUILD)/clients/cudart/%: $(BUILD)/tests/clients/cudart/%.o | $(cudart_libs) $(softgpu_lib)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $< \
		$(if $(filter layouts,$*),,-L$(BUILD)/softgpu -l:libcudart.so.$(if $(filter %_12,$*),12,13)) $(old_glibc_libs)

softgpu_tests += $(wildcard tests/clients/cudart/test_*.sh)

# make ptx: the images that tests read, packed in each way (needs nvcc of CUDA 12.9 or newer).
.PHONY: ptx cudart-images
ptx: cudart-images
cudart-images:
	$(Q)pack() { \
		name=tests/clients/cudart/kernels.$$1.fatbin; shift; \
		echo "  NVCC    $$name"; \
		$(NVCC) -fatbin -O2 "$$@" -o $$name tests/clients/cudart/kernels.cu; \
	}; \
	code() { echo "-gencode arch=compute_$$1,code=$$2"; }; \
	pack none -arch=compute_75 --compress-mode=none && \
	pack lz4 -arch=compute_75 --compress-mode=speed && \
	pack zstd -arch=compute_75 --compress-mode=size && \
	pack machine $$(code 75 sm_75) && \
	pack newer -arch=compute_90 && \
	pack mixed $$(code 75 sm_75) $$(code 75 compute_75) $$(code 80 compute_80) $$(code 90 compute_90)
