# tests/softgpu/ptx: the PTX executor, and its test program, which needs nothing else
ptx_src := $(wildcard tests/softgpu/ptx/*.c)
ptx_obj := $(ptx_src:%.c=$(BUILD)/%.o)

# The same bits whatever the host: no contraction, and no memcpy in place of a loop that may fault.
cflags_tests_softgpu_ptx_ := -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math \
	-fno-tree-loop-distribute-patterns

$(BUILD)/tests/softgpu/test_ptx: $(BUILD)/tests/softgpu/test_ptx.o $(ptx_obj)
	$(call say,LINK)
	$(Q)$(CC) $(all_ldflags) -o $@ $^ -lm

run-check: $(BUILD)/tests/softgpu/test_ptx

softgpu_tests += $(BUILD)/tests/softgpu/test_ptx
