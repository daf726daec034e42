# Every tests/unit/test_*.c is one program over core/, written with check; no GPU, no shim.
unit_src := $(wildcard tests/unit/test_*.c)
unit_out := $(unit_src:%.c=$(BUILD)/%)

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libcore.a
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -linih $(check_libs) -lm -lrt
check_libs := -lcheck $(shell pkg-config --libs check 2>/dev/null)
