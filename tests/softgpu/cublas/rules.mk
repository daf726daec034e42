# SPDX-License-Identifier: MIT
# tests/softgpu/cublas: products of matrices under the names of cuBLAS and cuBLASLt, for CUDA 12 and
# 13. The versions differ in their symbols' version alone.
cublas_libs := $(foreach library,cublas cublasLt,$(foreach major,12 13,$(BUILD)/softgpu/lib$(library).so.$(major)))
softgpu_out += $(cublas_libs)

cublas_objects := launch.o kernels.o
$(BUILD)/softgpu/libcublas.so.%: list := cublas
$(BUILD)/softgpu/libcublasLt.so.%: list := cublaslt
cublas_folder := $(BUILD)/tests/softgpu/cublas

$(cublas_folder)/exports_%.o: tests/softgpu/cublas/exports.c tests/softgpu/cublas/%.def | $(BUILD)/cuda.mk
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(old_glibc) $(all_cppflags) -DEXPORTS='"tests/softgpu/cublas/$*.def"' $(all_cflags) -MMD -MP -c -o $@ $<

$(cublas_folder)/kernels.o: tests/softgpu/cublas/kernels.ptx

$(cublas_libs): $(addprefix $(cublas_folder)/,$(cublas_objects) cublas.o cublaslt.o exports_cublas.o exports_cublaslt.o)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)echo '$(@F) { global: cublas*; local: *; };' >$@.map
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,$(@F) -Wl,--version-script=$@.map $(all_ldflags) -o $@ \
		$(addprefix $(cublas_folder)/,$(cublas_objects) $(list).o exports_$(list).o) $(old_glibc_libs) && rm $@.map
