# SPDX-License-Identifier: MIT
# tests/fuzz: one driver for all fuzz targets. Its short run is a test of every day. `make fuzz`
# builds it for libFuzzer, to be run by hand (needs clang with its fuzzer library):
#   FUZZ=ring build/fuzz/fuzz -max_len=600 -timeout=20 -max_total_time=600 CORPUS
# Of handle -max_len=399; of ptx -max_len=2048 -dict=tests/fuzz/ptx.dict. FUZZ=list names the
# targets.
fuzz_src := $(wildcard tests/fuzz/*.c)
fuzz_out := $(BUILD)/tests/fuzz/test_fuzz

$(fuzz_out): $(fuzz_src:%.c=$(BUILD)/%.o) $(addprefix $(BUILD)/tools/view/,ring_reader.o queue.o) $(ptx_obj) $(checked_core)
	$(call say,LD)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -linih -lm -lrt

.PHONY: fuzz
fuzz: $(BUILD)/fuzz/fuzz

$(BUILD)/fuzz/fuzz: $(fuzz_src) tests/fuzz/fuzz.h tests/fuzz/changes.h $(wildcard tests/softgpu/ptx/*.[ch] \
		core/state/*.[ch] core/rings/*.[ch] core/pages/*.[ch] core/view/*.[ch] core/base/*.[ch] core/config/*.[ch] core/ledger/*.[ch] core/registry/*.[ch] tools/view/ring_reader.[ch] tools/view/queue.[ch])
	$(call say,FUZZ)
	@mkdir -p $(@D)
	$(Q)clang -O1 -g -std=gnu11 -D_GNU_SOURCE -DFUZZ_BY_HAND -I. -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -Wno-pass-failed -ffp-contract=off -fno-math-errno -pthread -o $@ $(filter %.c,$^) -linih -lm -lrt
