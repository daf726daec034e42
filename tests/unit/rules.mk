# SPDX-License-Identifier: MIT
# Every tests/unit/test_*.c is one program over core/, written with check; no GPU, no shim.
comma := ,
unit_src := $(wildcard tests/unit/test_*.c)
unit_out := $(unit_src:%.c=$(BUILD)/%)

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(checked_core)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $(filter %.o,$^) $(filter-out %.o,$^) -linih $(check_libs) -lm -lrt
check_libs := -lcheck $(shell pkg-config --libs check 2>/dev/null)

# Deleters are the tool's.
$(BUILD)/tests/unit/test_containers $(BUILD)/tests/unit/test_registry_soak: $(BUILD)/tools/events/deleter.o $(BUILD)/tools/events/container_info.o

# The reader of rings is the tool's, and so is the queue of its work.
$(BUILD)/tests/unit/test_queue: $(BUILD)/tools/view/queue.o
$(BUILD)/tests/unit/test_ring: $(addprefix $(BUILD)/tools/view/,ring_reader.o queue.o)

# A verdict of the tool.
$(BUILD)/tests/unit/test_eviction: $(BUILD)/tools/view/eviction.o
$(BUILD)/tests/unit/test_paths: $(BUILD)/tools/doctor/paths.o

# A library that was written has to be loaded. A sanitizer calls dlopen() itself, so its library is
# searched for by the program's RPATH, which holds for all objects, and not by RUNPATH.
$(BUILD)/tests/unit/test_wheels: %: %.o $(addprefix $(BUILD)/tools/,wheels/library_read.o wheels/library_write.o view/tool.o) \
		$(checked_core) | $(BUILD)/softgpu/libsoftgpu-refuse.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../../softgpu' -o $@ $^ $(check_libs) -lm -lrt -ldl

# The plugin's options, where Slurm's header is.
$(BUILD)/tests/unit/test_slurm_options: $(if $(wildcard /usr/include/slurm/spank.h),$(patsubst %,$(BUILD)/tools/slurm/%.o,options settings))

# Which programs have no process slot, by what the tool knows.
$(BUILD)/tests/unit/test_unmanaged: $(addprefix $(BUILD)/tools/view/,unmanaged_check.o tool.o)

# Predictions are the tool's.
$(BUILD)/tests/unit/test_whatif: $(addprefix $(BUILD)/tools/,whatif/record.o whatif/model.o view/jobs.o view/counters.o view/tool.o)

# Parts of the page.
$(BUILD)/tests/unit/test_web: $(addprefix $(BUILD)/tools/,web/sha256.o web/history.o formats/json.o view/tool.o)

# What the tool sees of peer records.
$(BUILD)/tests/unit/test_sharing_seen: %: %.o $(BUILD)/tools/view/sharing.o $(BUILD)/tools/view/tool.o $(checked_core)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -linih $(check_libs) -lm -lrt

# Between two copies of a record the test changes it.
$(BUILD)/tests/unit/test_ring: LDFLAGS += -Wl,--wrap=pread

# The kernel refuses what it says.
$(BUILD)/tests/unit/test_shared_file: LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,openat pwrite posix_fallocate renameat fchmod)

# Steps of the start fail, and a child comes within them.
$(BUILD)/tests/unit/test_start: LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,job_config_start helper_start device_set_identify \
	segment_join_unnamed device_set_enter job_settings_start)

# It counts the files that are opened.
$(BUILD)/tests/unit/test_peers: LDFLAGS += -Wl,--wrap=openat

# It says what the books know.
$(BUILD)/tests/unit/test_heat: LDFLAGS += -Wl,--wrap=context_find_object

# It stops who looks at what is charged.
$(BUILD)/tests/unit/test_device: LDFLAGS += -Wl,--wrap=segment_charged

# It says which context is current.
$(BUILD)/tests/unit/test_async: LDFLAGS += -Wl,--wrap=context_current

# Its clock, its GPU and its program are its own, and it watches the gate.
$(BUILD)/tests/unit/test_moving: LDFLAGS += -Wl,--wrap=idle_now -Wl,--wrap=idle_point_wait -Wl,--wrap=idle_point_take \
	-Wl,--wrap=gate_hold -Wl,--wrap=gate_seize -Wl,--wrap=gate_unseize -Wl,--wrap=gate_let_in -Wl,--wrap=gate_open

# Those over recorded or generated launches.
$(BUILD)/tests/unit/test_step $(BUILD)/tests/unit/test_step_judged: %: %.o $(BUILD)/tests/unit/trace.o $(checked_core)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(check_libs)

# The shim's own objects in one program, and a driver that writes down how it was called.
$(BUILD)/tests/unit/test_rows: wrap := -Wl,--wrap=idle_point_tell
$(BUILD)/tests/unit/test_rows $(BUILD)/tests/unit/test_unmovable: %: %.o $(shim_obj) $(checked_core) \
		| $(BUILD)/tests/unit/recorder.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) $(wrap) -o $@ $^ -linih -ldl -lrt

$(BUILD)/tests/unit/recorder.so: $(BUILD)/tests/unit/recorder.o
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-Bsymbolic -o $@ $^

# How symbols are found in that driver, and in a library that needs it.
$(BUILD)/tests/unit/test_driver_symbols: %: %.o $(BUILD)/shim/driver_symbols.o | $(BUILD)/tests/unit/needing.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(check_libs) -ldl

$(BUILD)/tests/unit/needing.so: $(BUILD)/tests/unit/recorder.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,--no-as-needed -Wl,-rpath,'$$ORIGIN' -o $@ $^

# The same over a driver that hands out handles.
tracking_obj := $(patsubst %,$(BUILD)/tests/unit/%.o,test_tracking tracking tracking_lines tracking_changes tracking_actions tracking_soak)
$(BUILD)/tests/unit/test_tracking: $(tracking_obj) $(shim_obj) $(checked_core) | $(BUILD)/tests/unit/giver.so
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -linih -ldl -lrt

$(BUILD)/tests/unit/giver.so: $(BUILD)/tests/unit/giver.o
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-Bsymbolic -o $@ $^

# core/pace in a world of its own: virtual time, threads, devices. pace_world_run looks at one
# scenario by hand.
pace_world_obj := $(patsubst %,$(BUILD)/tests/unit/pace_%.o,coroutine world_time world_device world_driver world_process \
	world_measure programs scenarios)
pace_world_wrap := $(patsubst %,-Wl$(comma)--wrap=pthread_%,cond_timedwait self)
$(BUILD)/tests/unit/test_pace_%: $(BUILD)/tests/unit/test_pace_%.o $(pace_world_obj) $(checked_core)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) $(pace_world_wrap) -o $@ $^ -linih $(check_libs) -lm -lrt

$(BUILD)/tests/unit/pace_world_run: $(BUILD)/tests/unit/pace_world_run.o $(pace_world_obj) $(checked_core)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) $(pace_world_wrap) -o $@ $^ -linih -lrt
