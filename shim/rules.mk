# SPDX-License-Identifier: MIT
# shim/: is called. The preloaded object, its alias, and the folder layout both need.
shim_src := $(wildcard shim/*.c)
shim_obj := $(patsubst %.c,$(BUILD)/%.o,$(filter-out shim/alias.c shim/nvml_stand_in.c shim/role_vgpu.c,$(shim_src))) \
	$(BUILD)/shim/trampolines.o
shim_out := $(BUILD)/lib/libspillway.so $(BUILD)/lib/libspillway-alias.so $(BUILD)/lib/libspillway-nvml.so \
	$(BUILD)/lib/libcuda.so.1

# The same for glibc 2.34 and newer, whose libc.so.6 has it all: no library is loaded with it. A
# sanitizer's build has none.
is_glibc_2_34 := $(shell printf '\043include <features.h>\n\043if __GLIBC_PREREQ(2, 34)\nyes\n\043endif\n' | $(CC) -E -P - 2>/dev/null | tail -n 1)
ifeq ($(SANITIZER)$(is_glibc_2_34),yes)
shim_of_2_34 := $(BUILD)/lib/libspillway-2.34.so
shim_out += $(shim_of_2_34)
endif

# glibc's own libraries of before 2.34, where the functions named in core/base/glibc.h were then.
old_glibc_libs = $(if $(SANITIZER),-ldl -lpthread,-Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0)

# Of ours the loader runs order.c alone in a process without CUDA: none of the compiler's own
# beginnings and ends, whose work only libraries that are unloaded have. This one stays (nodelete).
no_start = $(if $(SANITIZER),,-nostartfiles -Wl$(comma)-z$(comma)nodelete)
comma := ,

# A program that starts there, too.
old_start = $(if $(SANITIZER),,$(BUILD)/shim/probe/start.o)

# inih is linked in, hidden: nothing but glibc is needed at run time. LDFLAGS=-BFOLDER: found there.
static_inih = $(shell $(CC) $(LDFLAGS) -print-file-name=libinih.a)

$(BUILD)/shim/exports.map: shim/exports.map.in shim/entry_points.h
	$(call say,GEN)
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -I. -x c $< -o $@

$(BUILD)/shim/trampolines.o: shim/entry_points.h

define link_shim
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(no_start) $(all_ldflags) -Wl,-soname,libcuda.so.1 -Wl,-z,defs -Wl,-z,lazy -Wl,-Bsymbolic -Wl,--hash-style=both \
		-Wl,--version-script=$(BUILD)/shim/exports.map -Wl,--exclude-libs,ALL -o $@ \
		$(filter %.o %.a,$^) $(static_inih) $(needed)
endef

# A symbol of glibc is looked up when it is first called: a process without CUDA calls none.
$(BUILD)/lib/libspillway.so: needed = $(old_glibc_libs)
$(BUILD)/lib/libspillway.so $(shim_of_2_34): $(shim_obj) $(BUILD)/libbuilt-in.a $(BUILD)/shim/exports.map shim/rules.mk
	$(link_shim)

# The kernel alone, whole: it links without any module. Beside it one with a single module. Of
# tests/e2e/test_modules.sh.
shim_kernel := $(BUILD)/kernel/libspillway.so
shim_with_events := $(BUILD)/with-events/libspillway.so
$(shim_kernel): $(BUILD)/modules/none.o
$(shim_with_events): $(call objects_of,events) $(BUILD)/modules/events.o
$(shim_kernel) $(shim_with_events): needed = $(old_glibc_libs)
$(shim_kernel) $(shim_with_events): $(shim_obj) $(kernel_obj) $(BUILD)/shim/exports.map shim/rules.mk
	@mkdir -p $(@D)
	$(link_shim)

# What HAMi, its DRA driver, KAI and Volcano mount into a container in place of HAMi-core: the same
# in one file, with what is opened for NVML inside.
vgpu_out := $(BUILD)/lib/libvgpu.so
vgpu_obj := $(filter-out $(BUILD)/shim/role_spillway.o,$(shim_obj)) $(BUILD)/shim/role_vgpu.o
shim_out += $(if $(filter vgpu,$(MODULES)),$(vgpu_out))
.PHONY: libvgpu
libvgpu: $(vgpu_out)

$(BUILD)/shim/role_vgpu.o: all_cppflags += -DSTAND_IN_FOR_NVML='"$(BUILD)/lib/libspillway-nvml.so"'
$(BUILD)/shim/role_vgpu.o: $(BUILD)/lib/libspillway-nvml.so

$(vgpu_out): needed = $(old_glibc_libs)
$(vgpu_out): $(vgpu_obj) $(BUILD)/libbuilt-in.a $(BUILD)/shim/exports.map shim/rules.mk
	$(link_shim)

# Tries what a driver may not survive, as a child of the user's process; starts on an older glibc,
# too.
shim_probe := $(BUILD)/lib/driver-probe
shim_out += $(shim_probe)

$(shim_probe): $(BUILD)/shim/probe/driver_probe.o $(old_start)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(old_glibc_libs)

# What a caller of dlopen("libcuda.so") gets; it finds the shim by SONAME beside it.
$(BUILD)/lib/libspillway-alias.so: $(BUILD)/shim/alias.o $(BUILD)/lib/libspillway.so \
		$(BUILD)/lib/libcuda.so.1
	$(call say,LD)
	$(Q)$(CC) -shared $(filter-out -pthread,$(all_ldflags)) -nostdlib -Wl,-soname,libcuda.so -Wl,--no-as-needed \
		-Wl,-rpath,'$$ORIGIN' -o $@ $(BUILD)/shim/alias.o $(BUILD)/lib/libspillway.so

# What a caller of dlopen("libnvidia-ml.so.1") gets: empty, and before the real NVML it needs the
# shim, whose functions dlsym then finds first. Linked against a stub, because a machine that builds
# need not have NVML.
$(BUILD)/shim/libnvidia-ml.so.1: shim/rules.mk
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -nostdlib -Wl,-soname,libnvidia-ml.so.1 -o $@ -x c /dev/null

$(BUILD)/lib/libspillway-nvml.so: $(BUILD)/shim/nvml_stand_in.o $(BUILD)/lib/libspillway.so \
		$(BUILD)/lib/libcuda.so.1 $(BUILD)/shim/libnvidia-ml.so.1
	$(call say,LD)
	$(Q)$(CC) -shared $(filter-out -pthread,$(all_ldflags)) -nostdlib -Wl,-soname,$(@F) -Wl,--no-as-needed -Wl,-rpath,'$$ORIGIN' \
		-o $@ $(BUILD)/shim/nvml_stand_in.o $(BUILD)/lib/libspillway.so $(BUILD)/shim/libnvidia-ml.so.1

# What /etc/ld.so.preload is in a container (spillway cdi).
shim_list := $(BUILD)/lib/ld.so.preload
shim_out += $(shim_list)
$(shim_list): shim/rules.mk
	@mkdir -p $(@D)
	$(Q)echo '$(abspath $(@D))/libspillway.so $(abspath $(@D))/libspillway-alias.so' >$@

$(BUILD)/lib/libcuda.so.1: $(BUILD)/lib/libspillway.so
	@ln -sf libspillway.so $@

# A line for every row of the table: what a complete shim does with it, and the file that does it.
.PHONY: coverage
coverage: $(BUILD)/lib/libspillway.so
	@tools/dev/coverage $(BUILD)
