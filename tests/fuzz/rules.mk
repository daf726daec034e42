# SPDX-License-Identifier: MIT
# make fuzz: libFuzzer targets, run by hand (needs clang with its fuzzer library):
#   build/fuzz/fuzz_ring -max_len=600 -timeout=20 -max_total_time=600 CORPUS
# Of fuzz_handle -max_len=399. Short runs without clang are tests/unit/test_fuzz_*.c. That of the
# PTX executor is in its own rules.
fuzz_out := $(patsubst %,$(BUILD)/fuzz/fuzz_%,handle page ring segment text)

.PHONY: fuzz
fuzz: $(fuzz_out)

$(fuzz_out): $(BUILD)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/changes.h \
		$(wildcard core/state/*.[ch] core/rings/*.[ch] core/pages/*.[ch] core/view/*.[ch] core/base/*.[ch] core/config/*.[ch] core/registry/*.[ch])
	$(call say,FUZZ)
	@mkdir -p $(@D)
	$(Q)clang -O1 -g -std=gnu11 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -pthread -o $@ $(filter %.c,$^) -linih -lm -lrt
