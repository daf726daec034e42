# SPDX-License-Identifier: MIT
# tests/softgpu: a CUDA driver that runs on the CPU, and the program that prints its books.
include tests/softgpu/ptx/rules.mk

softgpu_src := $(filter-out %/truth_main.c $(wildcard tests/softgpu/test_*.c),$(wildcard tests/softgpu/*.c))
softgpu_obj := $(softgpu_src:%.c=$(BUILD)/%.o) $(BUILD)/core/base/file_status.o
softgpu_lib := $(BUILD)/softgpu/libcuda.so.1
softgpu_out := $(softgpu_lib) $(BUILD)/softgpu/libcuda.so $(BUILD)/softgpu/softgpu-truth

# -Bsymbolic, as real drivers: a preloaded shim must not catch the driver's calls to itself.
# nodelete: its threads go on where a program unloads it.
$(softgpu_lib): $(softgpu_obj) $(ptx_obj)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-Bsymbolic,-z,nodelete -Wl,-soname,libcuda.so.1 $(all_ldflags) -o $@ $^ -lm $(old_glibc_libs)

$(BUILD)/softgpu/libcuda.so: $(softgpu_lib)
	$(Q)ln -sf libcuda.so.1 $@

# What reads the books without being a driver.
machine_obj := $(addprefix $(BUILD)/tests/softgpu/,machine.o machine_share.o slice.o config.o limiter.o) \
	$(BUILD)/core/base/file_status.o

$(BUILD)/softgpu/softgpu-truth: $(BUILD)/tests/softgpu/truth_main.o $(machine_obj)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(old_glibc_libs)

# Every test_*.c here is a program of its own, linked against the driver by path.
softgpu_test_src := $(filter-out tests/softgpu/test_ptx%,$(wildcard tests/softgpu/test_*.c))
softgpu_driver_tests := $(softgpu_test_src:%.c=$(BUILD)/%)
softgpu_tests += $(softgpu_driver_tests) tests/softgpu/test_layers.sh
softgpu_out += $(softgpu_driver_tests)

$(softgpu_driver_tests): $(BUILD)/tests/softgpu/%: $(BUILD)/tests/softgpu/%.o $(softgpu_lib)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -Wl,-rpath,'$$ORIGIN/../../softgpu' -o $@ $< $(softgpu_lib) -ldl -lm

include tests/softgpu/nvml/rules.mk

include tests/softgpu/cudart/rules.mk

include tests/softgpu/cublas/rules.mk

include tests/softgpu/cudnn/rules.mk

include tests/softgpu/node/rules.mk

include tests/softgpu/stand_ins/rules.mk
