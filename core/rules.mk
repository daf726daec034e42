# SPDX-License-Identifier: MIT
# core/: decides. One archive, linked whole into the shim and piecewise into tools and unit tests.
core_src := $(wildcard core/*/*.c core/*/*/*.c)
core_obj := $(core_src:%.c=$(BUILD)/%.o)

$(BUILD)/libcore.a: $(core_obj)
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

# The same for unit tests, with checks that what is preloaded does without.
checked_core := $(if $(SANITIZER),$(BUILD)/libcore.a,$(BUILD)/checked/libcore.a)

$(BUILD)/checked/%.o: %.c | $(BUILD)/cuda.mk
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) $(check_locks) $(cppflags_$(subst /,_,$(dir $<))) $(all_cflags) \
		$(cflags_$(subst /,_,$(dir $<))) -MMD -MP -c -o $@ $<

$(BUILD)/checked/libcore.a: $(core_src:%.c=$(BUILD)/checked/%.o)
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) qcs $@ $^
