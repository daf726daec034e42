# SPDX-License-Identifier: MIT
# tools/slurm/: a SPANK plugin for Slurm, built by `make slurm` where slurm/spank.h is. What it
# needs of Slurm is in slurmd, srun and sbatch, which load it.
slurm_src := $(wildcard tools/slurm/*.c)
slurm_obj := $(slurm_src:%.c=$(BUILD)/%.o)
slurm_out := $(BUILD)/slurm/spillway-slurm.so
# Those symbols of exports.map are seen; Slurm takes words of options as char *.
cflags_tools_slurm_ := -fvisibility=default -Wno-write-strings

.PHONY: slurm
slurm: $(slurm_out)

$(slurm_out): $(slurm_obj) $(BUILD)/libcore.a tools/slurm/exports.map
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(all_ldflags) -Wl,--version-script=tools/slurm/exports.map -o $@ $(filter %.o %.a,$^) $(inih_libs) -lrt

# install-slurm puts it beside the shim; conf/slurm/plugstack.conf names that place.
.PHONY: install-slurm
install-slurm: $(slurm_out)
	@install -d $(shim_dir)/slurm
	@$(replace) 755 $(slurm_out) $(shim_dir)/slurm/$(notdir $(slurm_out))
	@echo 'installed: $(shim_dir)/slurm/spillway-slurm.so; spillway-slurm(7) says what Slurm needs'
