# tests/softgpu/cudart: a libcudart.so.13 for programs of nvcc -cudart shared, and its clients.
cudart_src := $(wildcard tests/softgpu/cudart/*.c)
cudart_obj := $(cudart_src:%.c=$(BUILD)/%.o)
cudart_lib := $(BUILD)/softgpu/libcudart.so.13
softgpu_out += $(cudart_lib)

# Last: what the runtime's headers need, where they come without the folder crt.
cppflags_tests_softgpu_cudart_ := -idirafter tests/softgpu/cudart/compat

$(cudart_lib): $(cudart_obj) tests/softgpu/cudart/exports.map
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,libcudart.so.13 \
		-Wl,--version-script=tests/softgpu/cudart/exports.map $(all_ldflags) -o $@ $(cudart_obj) -ldl

# A program without nvcc: it registers checked-in images as nvcc's start-up code does.
cudart_client := $(BUILD)/clients/cudart/registered
softgpu_out += $(cudart_client)
cppflags_tests_clients_cudart_ := $(cppflags_tests_softgpu_cudart_)

$(cudart_client): $(BUILD)/tests/clients/cudart/registered.o | $(cudart_lib) $(softgpu_lib)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $< -L$(BUILD)/softgpu -l:libcudart.so.13

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
