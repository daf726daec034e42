/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: the PTX executor. Text goes in, and kernels that load are run.
 *
 * Text that begins with ".version" is a module; any other is the body of a kernel with some
 * registers. Nothing may crash, hang or leave its memory with any text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fuzz/fuzz.h"
#include "tests/softgpu/ptx/ptx.h"

enum { WINDOW = 1 << 20, MAX_POLLS = 200 };

static uint8_t *window, *alias;
static size_t used;

static uint64_t allocate(void *cookie, size_t size, size_t align)
{
	(void)cookie;
	size_t at = (used + align - 1) & -align;
	if (at > WINDOW || size > WINDOW - at)
		return 0;
	used = at + size;
	return (uint64_t)(uintptr_t)(window + at);
}

static void release(void *cookie, uint64_t address)
{
	(void)cookie;
	(void)address;
}

static bool no_access(void *cookie, uint64_t address, size_t size, bool write)
{
	(void)cookie;
	(void)address;
	(void)size;
	(void)write;
	return false;
}

static int poll(void *cookie)
{
	return ++*(int *)cookie > MAX_POLLS;
}

static void set_up(void)
{
	window = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* The last page faults: kernels meet the end of memory. */
	alias = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (window == MAP_FAILED || alias == MAP_FAILED ||
	    mprotect(alias, WINDOW - 4096, PROT_READ | PROT_WRITE) != 0)
		abort();
	/* What kernels print is of no interest. */
	if (!freopen("/dev/null", "w", stdout))
		abort();
}

static void run(const struct ptx_function *function)
{
	const struct ptx_function_info *info = ptx_function_info(function);
	uint64_t *parameters = calloc(info->parameter_bytes / 8 + 1, 8);
	if (!parameters)
		return;
	for (uint32_t i = 0; i < info->parameter_bytes / 8; i++)
		parameters[i] = (uintptr_t)window;
	int polls = 0;
	struct ptx_fault fault;
	struct ptx_launch launch = {
	    .grid = {3, 1, 1},
	    .block = {40, 1, 1},
	    .dynamic_shared = 64,
	    .parameters = parameters,
	    .poll = poll,
	    .poll_cookie = &polls,
	    .poll_instructions = 100,
	};
	ptx_run(function, &launch, &fault);
	free(parameters);
}

static void ptx_run_text(const uint8_t *data, size_t size)
{
	static const char head[] =
	    ".version 8.0\n.target sm_90\n.address_size 64\n"
	    ".global .b32 g[16]; .const .b32 k[4] = {1, 2, 3, 4}; .extern .shared .b32 dyn[];\n"
	    ".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %t; ld.param.b32 %t, [a];\n"
	    "add.u32 %t, %t, %t; st.param.b32 [r], %t; ret; }\n"
	    ".visible .entry f(.param .u64 in, .param .u64 out) {\n"
	    ".reg .b64 %rd<16>; .reg .b32 %r<16>; .reg .pred %p<8>; .reg .b16 %h<8>; .reg .f32 "
	    "%f<8>;\n"
	    ".reg .f64 %d<8>; .local .b32 loc[8]; .shared .b32 sh[64]; .param .b32 pa; .param .b32 "
	    "pr;\n"
	    "ld.param.u64 %rd1, [in]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; setp.lt.u32 "
	    "%p1, %r1, 9;\n";
	static const char tail[] = "\nret; }\n";
	if (!window)
		set_up();
	bool whole = size > 8 && !memcmp(data, ".version", 8);
	size_t before = whole ? 0 : sizeof head - 1, after = whole ? 0 : sizeof tail - 1;
	/* To the byte, so that a sanitizer sees what is read past the end. */
	char *text = malloc(before + size + after);
	if (!text)
		return;
	memcpy(text, head, before);
	memcpy(text + before, data, size);
	memcpy(text + before + size, tail, after);
	struct ptx_memory memory = {
	    .window_base = (uintptr_t)window,
	    .window_size = WINDOW,
	    .alias_delta = alias - window,
	    .host_access = no_access,
	    .allocate = allocate,
	    .release = release,
	};
	struct ptx_module *module = NULL;
	char log[200];
	used = 0;
	enum ptx_status status =
	    ptx_module_load(text, before + size + after, &memory, &module, log, sizeof log);
	free(text);
	if (status != PTX_OK)
		return;
	for (uint32_t i = 0; i < 4 && ptx_module_function(module, i); i++)
		run(ptx_module_function(module, i));
	ptx_module_unload(module);
}

static const char *const good_ptx[] = {
    "add.u32 %r2, %r1, 5; mul.lo.u32 %r3, %r2, %r1; st.global.u32 [%rd1+16], %r3;\n",
    "@%p1 bra L; shfl.sync.bfly.b32 %r4, %r1, 1, 31, 0xffffffff; L: bar.sync 0;\n",
    "atom.global.add.u32 %r5, [%rd1], 1; ld.global.f32 %f2, [%rd1+4];\n",
    "fma.rn.f32 %f3, %f2, %f1, %f1; st.global.f32 [%rd1+8], %f3;\n",
    "mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 20; @%p2 bra L;\n",
    "st.shared.u32 [sh+4], %r1; ld.shared.u32 %r7, [sh+8]; cvt.f64.u32 %d1, %r7;\n",
};

static size_t ptx_of(uint8_t input[FUZZ_INPUT_MAX], const char *text)
{
	return (size_t)snprintf((char *)input, FUZZ_INPUT_MAX / 2, "%s", text);
}

static size_t ptx_good(uint8_t input[FUZZ_INPUT_MAX])
{
	return ptx_of(input, good_ptx[0]);
}

/* Two bodies, one behind the other, of which characters are changed and taken out. */
static size_t ptx_change(uint8_t input[FUZZ_INPUT_MAX])
{
	static const char letters[] = "0123456789%rdfp.,;[]{}@+-LuUsb ";
	enum { GOOD = sizeof good_ptx / sizeof *good_ptx };
	size_t size = ptx_of(input, good_ptx[fuzz_random() % GOOD]);

	size += ptx_of(input + size, good_ptx[fuzz_random() % GOOD]);
	for (uint64_t changes = fuzz_random() % 4; changes > 0; changes--) {
		size_t at = fuzz_random() % size;

		if (fuzz_random() % 4 == 0)
			memmove(input + at, input + at + 1, --size - at);
		else
			input[at] = (uint8_t)letters[fuzz_random() % (sizeof letters - 1)];
	}
	return size;
}

const struct fuzz_target fuzz_ptx = {
    .name = "ptx",
    .reads = "the PTX executor of the software GPU",
    .run = ptx_run_text,
    .good = ptx_good,
    .change = ptx_change,
    .rounds = 2000,
};
