# SPDX-License-Identifier: MIT
# tests/softgpu/cudnn: the stand-in libcudnn.so.9, and the ptxas that hands PTX on. Frameworks load
# the one by its name and start the other.
cudnn_lib := $(BUILD)/softgpu/libcudnn.so.9
ptxas := $(BUILD)/softgpu/cuda/bin/ptxas
cudnn_test := $(BUILD)/tests/softgpu/cudnn/test_cudnn
softgpu_out += $(cudnn_lib) $(ptxas) $(cudnn_test)
softgpu_tests += $(cudnn_test) tests/softgpu/cudnn/test_ptxas.sh

# Each function has the version that PyTorch wants of it.
$(cudnn_lib): $(BUILD)/tests/softgpu/cudnn/cudnn.o tests/softgpu/cudnn/exports.def
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q){ echo 'libcudnn.so.9 { global: cudnn*; local: *; };'; } >$@.map
	$(Q)$(CC) -shared -Wl,-Bsymbolic -Wl,-soname,libcudnn.so.9 -Wl,--version-script=$@.map \
		$(all_ldflags) -o $@ $< $(old_glibc_libs) && rm $@.map

$(ptxas): tests/softgpu/cudnn/ptxas
	@mkdir -p $(@D)
	$(Q)install -m 755 $< $@

$(cudnn_test): $(cudnn_test).o $(cudnn_lib)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -Wl,-rpath,'$$ORIGIN/../../../softgpu' -o $@ $^
