# SPDX-License-Identifier: MIT
# Every tests/e2e/test_*.sh runs from the root of the repository with BUILD in its environment.
e2e_tests := $(sort $(wildcard tests/e2e/test_*.sh))
# Of these, what downloads packages: other C libraries, NVIDIA's drivers, another machine's
# libraries.
e2e_download_tests := $(shell grep -lE 'fetch-deb|aarch64\.sh$$' $(e2e_tests))
e2e_tests := $(filter-out $(e2e_download_tests),$(e2e_tests))
program_tests += $(e2e_download_tests)
# The same with counts that take minutes.
e2e_long_tests := $(sort $(wildcard tests/e2e/long_*.sh))
# Of tests/e2e/test_guest_*.sh: programs that know CUDA, and what watches or disturbs them.
lives := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/e2e/life_*.c))
life_tools := $(addprefix $(BUILD)/tests/e2e/,syscalls hold_lock late.so loading.so die_at.so clock_step.so wants_tls.so)
# Of tests/e2e/test_place_*.sh: programs, and libraries that are loaded beside us.
guests := $(addprefix $(BUILD)/tests/e2e/,guest peers)
neighbours := $(addprefix $(BUILD)/tests/e2e/neighbour_,malloc.so preload.so audit.so redirect.so)
# Of tests/e2e/test_runtimes.sh: runtime libraries of one CUDA version, with one kind of default
# stream.
runtimes := $(patsubst %,$(BUILD)/tests/e2e/runtime-%.so,11080-0 11080-2 12040-2 13000-0 13000-2)
# Of tests/e2e/test_nvml.sh.
nvml_clients := $(addprefix $(BUILD)/tests/e2e/,nvml nvml_linked nvml-fake/libnvidia-ml.so.1)
# Of tests/e2e/test_network.sh: one library by the name of another, and by one that is nobody's.
network_libraries := $(addprefix $(BUILD)/tests/e2e/,libnccl.so.2 libordinary.so)
# Of the tests of elastic memory: programs over the driver, with what elastic.h gives them.
elastic_clients := $(addprefix $(BUILD)/tests/e2e/,moves destroys orders asynchronous childless registers copy_window free ipc segments handles pools exported refused stream_churn arrays)
e2e_out := $(elastic_clients) $(BUILD)/tests/e2e/slots $(BUILD)/tests/e2e/launch_often $(BUILD)/tests/e2e/driven $(BUILD)/tests/e2e/raises $(BUILD)/tests/e2e/restless $(BUILD)/bench/null/libcuda.so.1 $(BUILD)/bench/training $(BUILD)/tests/e2e/fake_job $(BUILD)/tests/e2e/forge_record $(BUILD)/tests/e2e/write_events $(BUILD)/tests/e2e/crowd $(BUILD)/tests/e2e/ring $(BUILD)/tests/e2e/empty.so $(BUILD)/tests/e2e/lingers.so \
	$(BUILD)/tests/e2e/crashing_driver.so $(BUILD)/tests/e2e/entry $(BUILD)/tests/e2e/linked $(BUILD)/tests/e2e/linked-now $(BUILD)/tests/e2e/unlisted $(BUILD)/tests/e2e/unlisted-now $(BUILD)/tests/e2e/binds $(BUILD)/tests/e2e/export_tables \
	$(BUILD)/tests/e2e/proc_addresses $(BUILD)/tests/e2e/blind_calls $(BUILD)/tests/e2e/allocate $(BUILD)/tests/e2e/advise $(BUILD)/tests/e2e/counted $(BUILD)/tests/e2e/capture $(BUILD)/tests/e2e/capture_free $(BUILD)/tests/e2e/books $(BUILD)/tests/e2e/small $(BUILD)/tests/e2e/told $(BUILD)/tests/e2e/judged $(BUILD)/tests/e2e/streams $(BUILD)/tests/e2e/static_tls \
	$(BUILD)/tests/e2e/deny $(BUILD)/tests/e2e/kill_times $(guests) $(neighbours) $(lives) $(life_tools) \
	$(BUILD)/tests/e2e/runtimes $(runtimes) $(nvml_clients) $(network_libraries)
# Of tests/bench/test_peers.sh.
e2e_out += $(BUILD)/bench/race
# Of tests/e2e/test_modules.sh.
e2e_out += $(shim_with_events)

$(BUILD)/tests/e2e/fake_job $(BUILD)/tests/e2e/forge_record $(BUILD)/tests/e2e/write_events $(BUILD)/tests/e2e/hold_lock $(BUILD)/tests/e2e/crowd $(BUILD)/tests/e2e/ring: %: %.o $(BUILD)/libcore.a
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(inih_libs) -ldl -lrt

# Start programs in the places of tests/e2e/test_place_*.sh, or watch them, or disturb them; not
# ours to sanitize.
$(BUILD)/tests/e2e/deny $(BUILD)/tests/e2e/restless $(BUILD)/tests/e2e/syscalls $(BUILD)/tests/e2e/kill_times: $(BUILD)/%: %.c
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) -std=gnu11 $(warnings) -O1 $(LDFLAGS) -o $@ $<

# Programs that know CUDA and nothing of Spillway.
$(addprefix $(BUILD)/tests/e2e/,entry export_tables static_tls proc_addresses blind_calls runtimes): %: %.o
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

$(BUILD)/tests/e2e/allocate $(BUILD)/tests/e2e/counted $(BUILD)/tests/e2e/capture $(BUILD)/tests/e2e/capture_free $(BUILD)/tests/e2e/books $(BUILD)/tests/e2e/small $(BUILD)/tests/e2e/told $(BUILD)/tests/e2e/judged $(BUILD)/tests/e2e/streams $(BUILD)/tests/e2e/slots $(BUILD)/tests/e2e/launch_often $(elastic_clients) $(guests) $(lives): %: %.o | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1

# Linked to all of the driver: the loader binds its functions when they are called, or at the start.
$(BUILD)/tests/e2e/linked $(BUILD)/tests/e2e/linked-now: $(BUILD)/tests/e2e/linked.o | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -Wl,-z,$(if $(filter %-now,$@),now,lazy) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1

# A driver with functions that Spillway does not know, and programs that are linked to them.
later_driver := $(BUILD)/tests/e2e/later/libcuda.so.1
$(later_driver): $(BUILD)/tests/e2e/later_driver.o $(BUILD)/tests/e2e/binding_driver.o $(softgpu_obj) $(ptx_obj)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-Bsymbolic,-z,nodelete -Wl,-soname,libcuda.so.1 $(all_ldflags) -o $@ $^ -lm $(old_glibc_libs)
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so

$(BUILD)/tests/e2e/unlisted $(BUILD)/tests/e2e/unlisted-now: $(BUILD)/tests/e2e/unlisted.o $(later_driver)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -Wl,-z,$(if $(filter %-now,$@),now,lazy) -o $@ $^ -ldl

$(BUILD)/tests/e2e/binds: $(BUILD)/tests/e2e/binds.o $(later_driver)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^

$(BUILD)/tests/e2e/driven $(BUILD)/tests/e2e/advise: %: %.o $(machine_obj) | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1

$(BUILD)/tests/e2e/raises: $(BUILD)/tests/e2e/raises.o $(machine_obj) $(BUILD)/libcore.a
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(inih_libs) -ldl -lrt

# Loaded into programs that are not ours, so without sanitizers.
$(BUILD)/tests/e2e/empty.so:
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -fPIC -o $@ -x c /dev/null

$(network_libraries): tests/e2e/registers_library.c tests/e2e/registers.h | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	$(Q)$(CC) $(all_cppflags) -std=gnu11 $(warnings) -O1 -fPIC -shared $(LDFLAGS) -o $@ $< -L$(BUILD)/softgpu -l:libcuda.so.1

$(runtimes): $(BUILD)/tests/e2e/runtime-%.so: tests/e2e/runtime.c tests/e2e/runtime.h
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) -std=gnu11 $(warnings) -shared -fPIC -DRUNTIME=$(firstword $(subst -, ,$*)) \
		-DSTREAMS=$(lastword $(subst -, ,$*)) -o $@ $< -ldl

$(BUILD)/tests/e2e/%.so: tests/e2e/%.c
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -fPIC -Wall -Werror -o $@ $<

$(BUILD)/tests/e2e/nvml: $(BUILD)/tests/e2e/nvml.o
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -ldl

$(BUILD)/tests/e2e/nvml_linked: tests/e2e/nvml.c | $(BUILD)/softgpu/libnvidia-ml.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) -DLINKED $(all_cflags) $(all_ldflags) -o $@ $< -L$(BUILD)/softgpu -l:libnvidia-ml.so.1 -ldl

$(BUILD)/tests/e2e/nvml-fake/libnvidia-ml.so.1: tests/e2e/nvml_fake.c
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_cppflags) -shared -fPIC -O1 -Wall -Werror -Wl,-soname,libnvidia-ml.so.1 -o $@ $<
