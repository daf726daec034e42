# core/: decides. One archive, linked whole into the shim and piecewise into tools and unit tests.
core_src := $(wildcard core/*.c core/*/*.c)
core_obj := $(core_src:%.c=$(BUILD)/%.o)

$(BUILD)/libcore.a: $(core_obj)
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
