# SPDX-License-Identifier: MIT
# tests/softgpu/stand_ins: the library that all libraries need that `spillway run --softgpu`
# generates.
refuse_lib := $(BUILD)/softgpu/libsoftgpu-refuse.so
softgpu_out += $(refuse_lib)

$(refuse_lib): $(BUILD)/tests/softgpu/stand_ins/refuse.o
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(all_ldflags) -o $@ $< $(old_glibc_libs)
