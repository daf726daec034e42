# SPDX-License-Identifier: MIT
# core/: decides. One archive, from which programs take what they use.
core_src := $(wildcard core/*/*.c core/*/*/*.c)
core_obj := $(core_src:%.c=$(BUILD)/%.o)

# Modules: the parts that the kernel runs without (core/job/module.h). MODULES= builds the kernel
# alone into the shim, MODULES="steps vgpu" two modules besides.
all_modules := $(sort $(patsubst core/modules/%/,%,$(dir $(wildcard core/modules/*/*.c))))
MODULES ?= $(all_modules)
ifneq ($(filter-out $(all_modules),$(MODULES)),)
$(error MODULES=$(filter-out $(all_modules),$(MODULES)): expected some of $(all_modules))
endif
kernel_obj := $(patsubst %.c,$(BUILD)/%.o,$(filter-out core/modules/%,$(core_src)))
objects_of = $(patsubst %.c,$(BUILD)/%.o,$(foreach module,$(sort $(1)),$(wildcard core/modules/$(module)/*.c)))
module_obj := $(call objects_of,$(MODULES))

# Their table, written anew where MODULES has changed.
define write_table
	@mkdir -p $(@D)
	@{ echo '/* The modules that are built in, by core/rules.mk. */'; echo '#include "core/job/module.h"'; \
		for module in $(1); do echo "extern const struct module module_$$module;"; done; \
		echo 'const struct module *const modules[] = {'; \
		for module in $(1); do echo "    &module_$$module,"; done; echo '    0};'; } >$@.tmp
	@if cmp -s $@.tmp $@; then rm $@.tmp; else mv $@.tmp $@; fi
endef
.PHONY: always
$(BUILD)/modules/table.c: always
	$(call write_table,$(sort $(MODULES)))
$(BUILD)/modules/none.c:
	$(call write_table,)
$(BUILD)/modules/events.c:
	$(call write_table,events)

$(BUILD)/modules/%.o: $(BUILD)/modules/%.c | $(BUILD)/cuda.mk
	$(call say,CC)
	$(Q)$(CC) $(old_glibc) $(all_cppflags) $(all_cflags) -MMD -MP -c -o $@ $<

$(BUILD)/libcore.a: $(core_obj) $(BUILD)/modules/table.o
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

# The kernel and the modules of MODULES: the shim has no more.
$(BUILD)/libbuilt-in.a: $(kernel_obj) $(module_obj) $(BUILD)/modules/table.o
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

# The same for unit tests, with checks that what is preloaded does without.
checked_core := $(if $(SANITIZER),$(BUILD)/libcore.a,$(BUILD)/checked/libcore.a)

$(BUILD)/checked/%.o: %.c | $(BUILD)/cuda.mk
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) $(check_locks) $(cppflags_$(subst /,_,$(dir $<))) $(all_cflags) \
		$(cflags_$(subst /,_,$(dir $<))) -MMD -MP -c -o $@ $<

$(BUILD)/checked/libcore.a: $(core_src:%.c=$(BUILD)/checked/%.o) $(BUILD)/modules/table.o
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) qcs $@ $^
