# SPDX-License-Identifier: MIT
# tests/bench: the cost of Spillway, as a ratio to the same calls without it, in one run.
bench_out := $(addprefix $(BUILD)/bench/,bench alone sharer launches surveyed memory init race engine moves steps training start books empty.so null/libcuda.so.1)

calls_out := $(addprefix $(BUILD)/bench/,bench alone launches surveyed memory race sharer engine)
$(calls_out): $(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(BUILD)/tests/bench/measure.o | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1 -lm

$(BUILD)/bench/moves $(BUILD)/bench/steps $(BUILD)/bench/training: $(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(BUILD)/tests/bench/measure.o \
		$(BUILD)/tests/bench/control.o $(BUILD)/libcore.a | $(BUILD)/softgpu/libcuda.so.1
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -L$(BUILD)/softgpu -l:libcuda.so.1 $(inih_libs) -lrt

$(BUILD)/bench/init $(BUILD)/bench/start: $(BUILD)/bench/%: $(BUILD)/tests/bench/%.o
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^

$(BUILD)/bench/books: $(BUILD)/tests/bench/books.o $(BUILD)/libcore.a
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ $(inih_libs) -lrt

$(BUILD)/bench/null/libcuda.so.1: $(BUILD)/tests/bench/nulldriver.o
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(all_ldflags) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o $@ $^ -ldl

$(BUILD)/bench/empty.so:
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ -x c /dev/null

.PHONY: run-bench run-bench-compare run-bench-pace run-bench-sharing run-bench-engines run-bench-what-if run-pictures
run-bench: all $(bench_out)
	@BUILD=$(BUILD) tests/bench/$(if $(PEERS),peers $(PEERS),run $(if $(BENCH_JSON),--json $(BENCH_JSON)))

bench_tests := tests/bench/test_compare.sh tests/bench/test_peers.sh

# Against an older commit: BASE=COMMIT, PAIRS=7. Builds stay in build/compare/.
run-bench-compare: all $(bench_out)
	@BUILD=$(BUILD) MAKE=$(MAKE) tests/bench/compare $(BASE) $(PAIRS)

# How exactly shares are held: takes a quarter of an hour, on a machine with nothing else to do. It
# draws the plot of README.
run-bench-pace: all
	@BUILD=$(BUILD) SVG=tests/bench/share.svg tests/bench/pace

# What jobs that share by need keep of their speed; ROWS=WORD: only matching rows.
run-bench-sharing: all $(BUILD)/bench/sharer $(BUILD)/bench/alone $(BUILD)/bench/null/libcuda.so.1
	@BUILD=$(BUILD) tests/bench/sharing $(TABLES)

# What two inference engines on one GPU keep of a dedicated one; REQUESTS="2 32": only those loads.
run-bench-engines: all $(BUILD)/bench/engine
	@BUILD=$(BUILD) tests/bench/engines $(if $(PEERS),--peers $(PEERS)) $(TABLES)

# Predictions of what-if, frozen in files, beside what is measured then: two tables and the curve of
# README. PROGRAMS="training tinygrad": those alone; ARGUMENTS=--resume: what is missing.
run-bench-what-if: all $(BUILD)/bench/training
	@BUILD=$(BUILD) tests/bench/what_if --write --svg tests/bench/what-if.svg $(ARGUMENTS) $(PROGRAMS)

# The pictures of README, each recorded from a run; PICTURES=top: that one alone.
run-pictures: all $(BUILD)/bench/sharer
	@for picture in $(or $(PICTURES),top sharing page); do \
		BUILD=$(BUILD) tests/bench/record_$$picture tests/bench/$$picture.svg || exit; \
	done
