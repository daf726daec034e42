# SPDX-License-Identifier: MIT
# The GPU kit: one folder with all that a real GPU is to be asked, which needs nothing but a driver,
# glibc 2.31 and a shell.
#
# Its programs are linked again from the same objects, so that an older glibc than this machine's
# starts them (old-glibc).
kit := $(BUILD)/gpu-kit
kit_link := $(BUILD)/gpu-kit-link
kit_programs := $(addprefix softgpu/,libcuda.so.1 libnvidia-ml.so.1 softgpu-truth) \
	$(addprefix clients/,train_mlp gpu_busy pace_load) \
	$(addprefix tests/e2e/,allocate free ipc moves proc_addresses restless) \
	$(addprefix gpu/,probe device_free utilisation questions/ask) \
	$(addprefix bench/,bench engine launches memory moves steps start null/libcuda.so.1) \
	$(addprefix conformance/,$(transcripts) identity) spillway \
	$(if $(has_nvcc),softgpu/libcudart.so.13 $(patsubst $(BUILD)/%,%,$(cudart_programs)))
kit_beside := $(patsubst $(BUILD)/%,%,$(clients_beside)) gpu/probe_kernels.ptx $(addprefix gpu/questions/,$(question_ptx)) \
	conformance/kernels.ptx bench/empty.so gpu/address_requests.tsv
kit_files := $(wildcard tests/gpu/check_*.sh tests/gpu/*.py) tests/gpu/needs.sh tests/gpu/pace.sh tests/gpu/machine \
	tests/gpu/questions/risks.tsv tests/gpu/questions/changes.awk tests/gpu/kit/results.awk \
	tests/conformance/record tests/conformance/compare tests/conformance/driver_version $(wildcard tests/conformance/documented/*.txt) \
	tests/bench/run tests/bench/report.awk
kit_doors := $(addprefix tests/gpu/kit/,run-all run-part selftest README REPORT.md)

kit_older := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/gpu/kit/older_*.c))
# What the loader of an older glibc has to find, as libraries of their own.
kit_old := libpthread.so.0 libdl.so.2 librt.so.1

.PHONY: make-gpu-kit
make-gpu-kit: $(kit_link)/made
	@echo 'the GPU kit is in $(kit): copy it to the machine and start ./run-all OUT there'
# All of them again, whenever one is: what they are linked to is no prerequisite of theirs.
$(kit_link)/linked: $(addprefix $(BUILD)/,$(kit_programs)) tests/gpu/kit/old-glibc $(kit_older) tests/gpu/kit/rules.mk
	@rm -rf $(kit_link) && mkdir -p $(kit_link)
	@CC='$(CC)' tests/gpu/kit/old-glibc $(abspath $(kit_link))/glibc $(kit_older)
	@cd $(BUILD) && find core modules tools tests libcore.a cuda.mk \( -name '*.o' -o -name '*.a' -o -name table.c -o -name cuda.mk \) \
		-exec cp -l --parents -t $(abspath $(kit_link)) {} +
	@+$(MAKE) --no-print-directory BUILD=$(kit_link) \
		LDFLAGS='-L$(abspath $(kit_link))/glibc -Wl,-rpath-link,$(abspath $(kit_link))/glibc -Wl,--no-as-needed $(addprefix -l:,$(kit_old))' \
		NVCC_LDFLAGS='-L$(abspath $(kit_link))/glibc -Xlinker -rpath-link=$(abspath $(kit_link))/glibc -Xlinker --no-as-needed $(addprefix -Xlinker -l:,$(kit_old))' \
		$(addprefix $(kit_link)/,$(kit_programs)) >$(kit_link)/log 2>&1 || { cat $(kit_link)/log; exit 1; }
	@touch $@

$(kit_link)/made: $(kit_link)/linked $(addprefix $(BUILD)/,$(kit_beside)) $(shim_out) $(kit_files) $(kit_doors)
	@rm -rf $(kit) && mkdir -p $(kit)/build
	@cd $(kit_link) && cp --parents -t $(abspath $(kit))/build $(kit_programs)
	@cd $(BUILD) && cp -d --parents -t $(abspath $(kit))/build $(kit_beside) $(patsubst $(BUILD)/%,%,$(filter-out %/ld.so.preload,$(shim_out))) \
		$(if $(has_nvcc),gpu/libcudart.so.13)
	@strip --strip-debug $$(find $(kit)/build -type f -perm -u+x)
	@cp --parents -t $(kit) $(kit_files)
	@cp -t $(kit) $(kit_doors) LICENSE LICENSES/CC-BY-4.0.txt
	$(call say,KIT)
	@touch $@

# Each of the driver's functions as some versions of CUDA ask for it, for both kinds of default
# stream.
$(BUILD)/gpu/address_requests.tsv: shim/entry_points.h tests/gpu/kit/rules.mk
	@mkdir -p $(@D)
	$(Q)sed -n 's/^FUNCTION(\([A-Za-z0-9_]*\),.*/\1/p' $< | sed 's/_pt[ds][sz]$$//; s/_v[0-9]$$//' | LC_ALL=C sort -u | \
		awk 'BEGIN { n = split("4000 7000 10020 11030 12000 12050 13000 13010 13020", version, " ") } \
		{ for (i = 1; i <= n; i++) for (flags = 0; flags <= 2; flags += 2) print $$1 "\t" version[i] "\t" flags }' >$@

ifeq ($(SANITIZER)$(CROSS),)
gpu_tests += tests/gpu/kit/test_kit.sh
program_tests += tests/gpu/kit/test_kit_old.sh
run-check run-check-programs: $(kit_link)/made
endif

# The whole kit in a bare folder as its root; half an hour and more.
.PHONY: run-check-gpu-kit
run-check-gpu-kit: make-gpu-kit
	@BUILD=$(BUILD) TEST_TIMEOUT=2700 tests/run tests/gpu/kit/long_kit.sh
