/* SPDX-License-Identifier: MIT */
/* Checks, device memory, launches, random numbers for the tests of the executor. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <math.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

int failures, checks;

__attribute__((format(printf, 4, 5))) void check_at(bool ok, const char *file, int line,
                                                    const char *format, ...)
{
	checks++;
	if (ok)
		return;
	if (++failures > 50)
		return;
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%s:%d: ", file, line);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* --- device memory: a window that only the executor can reach, through its alias --- */

uint8_t *window;
size_t used;
static uint8_t *alias;

/* Each piece is followed by a page that is not mapped. */
static uint64_t device_allocate(void *cookie, size_t size, size_t align)
{
	(void)cookie;
	(void)align;
	size_t pages = (size + PAGE - 1) / PAGE * PAGE, at = used;
	if (used + pages + PAGE > WINDOW)
		return 0;
	mprotect(alias + at, pages, PROT_READ | PROT_WRITE);
	used += pages + PAGE;
	return (uint64_t)(uintptr_t)(window + at);
}

static void device_release(void *cookie, uint64_t address)
{
	(void)cookie;
	(void)address;
}

void *host_low, *host_high;

static bool host_access(void *cookie, uint64_t address, size_t size, bool write)
{
	(void)cookie;
	(void)write;
	return address >= (uintptr_t)host_low && address + size <= (uintptr_t)host_high;
}

void empty_memory(void)
{
	used = 0;
	mprotect(alias, WINDOW, PROT_NONE);
}

struct ptx_memory memory;

void set_up_memory(void)
{
	window = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	alias = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	memory = (struct ptx_memory){
	    .window_base = (uintptr_t)window,
	    .window_size = WINDOW,
	    .alias_delta = alias - window,
	    .host_access = host_access,
	    .allocate = device_allocate,
	    .release = device_release,
	};
}

void *on_host(uint64_t address)
{
	return (void *)((uintptr_t)address + (uintptr_t)memory.alias_delta);
}

/* A device buffer with these contents (zeros when from is NULL). */
uint64_t buffer(const void *from, size_t size)
{
	uint64_t address = device_allocate(NULL, size, 256);
	if (!address) {
		fprintf(stderr, "test_ptx: the window is full\n");
		exit(1);
	}
	memset(on_host(address), 0, size);
	if (from)
		memcpy(on_host(address), from, size);
	return address;
}

/* --- modules and launches --- */

char *read_whole(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	if (!file) {
		fprintf(stderr, "test_ptx: cannot open %s; run from the repository's root\n", path);
		exit(1);
	}
	char *text = malloc(1 << 20);
	*length = fread(text, 1, 1 << 20, file);
	fclose(file);
	return text;
}

struct ptx_module *load_text(const char *text, size_t length, const char *name)
{
	struct ptx_module *module = NULL;
	char log[256];
	enum ptx_status status = ptx_module_load(text, length, &memory, &module, log, sizeof log);
	check(status == PTX_OK, "%s: status %d: %s", name, status, log);
	if (status != PTX_OK)
		exit(1);
	return module;
}

struct ptx_module *load_file(const char *path)
{
	size_t length;
	char *text = read_whole(path, &length);
	struct ptx_module *module = load_text(text, length, path);
	free(text);
	return module;
}

struct ptx_fault fault;
struct ptx_launch next_launch; /* extras for the next launch; reset by it */

/* Arguments: pointers to the parameters, in order. */
enum ptx_status launch(const struct ptx_module *module, const char *name, uint32_t grid_x,
                       uint32_t grid_y, uint32_t block_x, uint32_t block_y, ...)
{
	const struct ptx_function *f = ptx_module_find(module, name);
	check(f != NULL, "no function %s", name);
	if (!f)
		return PTX_INVALID;
	const struct ptx_function_info *info = ptx_function_info(f);
	uint8_t parameters[4096] = {0};
	va_list args;
	va_start(args, block_y);
	for (uint32_t i = 0; i < info->parameter_count; i++)
		memcpy(parameters + info->parameters[i].offset, va_arg(args, const void *),
		       info->parameters[i].size);
	va_end(args);
	struct ptx_launch l = next_launch;
	next_launch = (struct ptx_launch){0};
	l.grid[0] = grid_x;
	l.grid[1] = grid_y;
	l.grid[2] = 1;
	l.block[0] = block_x;
	l.block[1] = block_y;
	l.block[2] = 1;
	l.parameters = parameters;
	return ptx_run(f, &l, &fault);
}

static int capture_file, capture_saved;

void capture_begin(void)
{
	char path[] = "/tmp/test_ptx.XXXXXX";
	fflush(stdout);
	capture_file = mkstemp(path);
	unlink(path);
	capture_saved = dup(1);
	dup2(capture_file, 1);
}

void capture_end(char *text, size_t size)
{
	fflush(stdout);
	dup2(capture_saved, 1);
	ssize_t length = pread(capture_file, text, size - 1, 0);
	text[length > 0 ? length : 0] = '\0';
	close(capture_file);
	close(capture_saved);
}

static uint32_t seed = 1;

uint32_t random_bits(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed ^ seed >> 15;
}

float random_float(void)
{
	return (float)(int32_t)random_bits() / 2147483648.0f;
}

void check_floats(const float *got, const float *expected, int n, float tolerance, const char *what)
{
	for (int i = 0; i < n; i++) {
		bool same = float_bits(got[i]) == float_bits(expected[i]) ||
		            (isnan(got[i]) && isnan(expected[i])) ||
		            fabsf(got[i] - expected[i]) <= tolerance * fabsf(expected[i]);
		check(same, "%s[%d]: expected %.9g, got %.9g", what, i, expected[i], got[i]);
		if (!same)
			return;
	}
}

uint64_t double_bits(double d)
{
	uint64_t bits;
	memcpy(&bits, &d, sizeof bits);
	return bits;
}

uint32_t float_bits(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

uint32_t reverse_bits(uint32_t v)
{
	uint32_t r = 0;
	for (int i = 0; i < 32; i++)
		r |= (v >> i & 1) << (31 - i);
	return r;
}

uint64_t interesting(int i)
{
	static const uint64_t values[] = {
	    0,
	    1,
	    ~0ull,
	    0x80000000,
	    0x7fffffff,
	    0x8000000000000000,
	    0x3f800000,
	    0x7f800000,
	    0x7fc00000,
	    0x00000001,
	    0x807fffff,
	    0x3ff0000000000000,
	    0x7ff0000000000000,
	    0x4330000000000001,
	    255,
	    65535,
	};
	uint64_t wide = (uint64_t)random_bits() << 32 | random_bits();
	switch (i % 4) {
	case 0:
		return values[random_bits() % 16];
	case 1:
		return wide >> (random_bits() % 64);
	case 2:
		return float_bits(ldexpf(random_float(), (int)(random_bits() % 60) - 30));
	default:
		return i % 8 == 3 ? double_bits(1e3 * random_float()) : wide;
	}
}
