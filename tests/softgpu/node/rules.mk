# SPDX-License-Identifier: MIT
# tests/softgpu/node: preloaded by `spillway run --softgpu`, so that JAX looks for a GPU at all.
node_lib := $(BUILD)/softgpu/libsoftgpu-node.so
softgpu_out += $(node_lib)

$(node_lib): $(BUILD)/tests/softgpu/node/node.o
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(all_ldflags) -o $@ $< $(old_glibc_libs)
