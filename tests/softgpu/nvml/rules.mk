# SPDX-License-Identifier: MIT
# tests/softgpu/nvml: a stand-in for libnvidia-ml.so.1 that reads the software GPU's books.
nvml_lib := $(BUILD)/softgpu/libnvidia-ml.so.1
nvml_test := $(BUILD)/tests/softgpu/nvml/test_nvml
softgpu_out += $(nvml_lib) $(nvml_test)
softgpu_tests += $(nvml_test)
program_tests += tests/softgpu/nvml/test_python.sh

$(nvml_lib): $(BUILD)/tests/softgpu/nvml/nvml.o $(machine_obj)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,libnvidia-ml.so.1 $(all_ldflags) -o $@ $^ $(old_glibc_libs)

$(nvml_test): $(nvml_test).o $(softgpu_lib)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -Wl,-rpath,'$$ORIGIN/../../../softgpu' -o $@ $^ -ldl
