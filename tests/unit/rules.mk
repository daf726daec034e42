# Every tests/unit/test_*.c is one program over core/, written with check; no GPU, no shim.
unit_src := $(wildcard tests/unit/test_*.c)
unit_out := $(unit_src:%.c=$(BUILD)/%)

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/libcore.a
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -linih $(check_libs) -lm -lrt
check_libs := -lcheck $(shell pkg-config --libs check 2>/dev/null)

# The shim's own objects in one program, and a driver that writes down how it was called.
$(BUILD)/tests/unit/test_rows: wrap := -Wl,--wrap=moment_tell
$(BUILD)/tests/unit/test_rows $(BUILD)/tests/unit/test_unmovable: %: %.o $(shim_obj) $(BUILD)/libcore.a \
		| $(BUILD)/tests/unit/recorder.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) $(wrap) -o $@ $^ -linih -ldl -lrt

$(BUILD)/tests/unit/recorder.so: $(BUILD)/tests/unit/recorder.o
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-Bsymbolic -o $@ $^

# The same over a driver that hands out handles.
tracking_obj := $(patsubst %,$(BUILD)/tests/unit/%.o,test_tracking tracking tracking_lines tracking_changes tracking_soak)
$(BUILD)/tests/unit/test_tracking: $(tracking_obj) $(shim_obj) $(BUILD)/libcore.a | $(BUILD)/tests/unit/giver.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -linih -ldl -lrt

$(BUILD)/tests/unit/giver.so: $(BUILD)/tests/unit/giver.o
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-Bsymbolic -o $@ $^
