# SPDX-License-Identifier: MIT
# tests/chaos: random programs against the shim on the software GPU; see README.md.
chaos_objects = $(patsubst %,$(BUILD)/tests/chaos/%.o,$(1))
chaos_out := $(BUILD)/tests/chaos/chaos $(BUILD)/tests/chaos/chaos_worker
chaos_tests := tests/chaos/test_chaos.sh
chaos_long_tests := tests/chaos/long_chaos.sh

$(BUILD)/tests/chaos/chaos: $(call chaos_objects,conductor settings after sampler board) $(machine_obj)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^

$(BUILD)/tests/chaos/chaos_worker: $(call chaos_objects,worker operations blocks pattern memory virtual ipc pools graphs process board) \
		| $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1
