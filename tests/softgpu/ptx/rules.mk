# SPDX-License-Identifier: MIT
# tests/softgpu/ptx: the PTX executor, and its test program, which needs nothing else
ptx_src := $(wildcard tests/softgpu/ptx/*.c)
ptx_obj := $(ptx_src:%.c=$(BUILD)/%.o)

# The same bits whatever the host: no contraction, and no memcpy in place of a loop that may fault.
cflags_tests_softgpu_ptx_ := -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math \
	$(if $(findstring clang,$(CC)),-Wno-pass-failed -fno-builtin-memcpy -fno-builtin-memmove -fno-builtin-memset,-fno-tree-loop-distribute-patterns)

ptx_test_src := tests/softgpu/test_ptx.c $(wildcard tests/softgpu/ptx/tests/*.c)
ptx_test_obj := $(ptx_test_src:%.c=$(BUILD)/%.o)
cflags_tests_softgpu_ptx_tests_ := -ffp-contract=off

$(BUILD)/tests/softgpu/test_ptx: $(ptx_test_obj) $(ptx_obj)
	$(call say,LINK)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -lm

run-check: $(BUILD)/tests/softgpu/test_ptx

softgpu_tests += $(BUILD)/tests/softgpu/test_ptx

# make ptx: compile the samples again (needs nvcc; see the script)
.PHONY: ptx ptx-samples
ptx: ptx-samples
ptx-samples:
	$(Q)tests/softgpu/ptx/samples/compile
