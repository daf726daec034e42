/*
 * Tests the PTX executor by itself: kernels that nvcc compiled (ptx/samples/), PTX written by hand,
 * faults, and broken text. Run from the root of the repository; `--bench` measures speed instead.
 */
#include "tests/softgpu/ptx/ptx.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES "tests/softgpu/ptx/samples/"

static int failures, checks;

__attribute__((format(printf, 4, 5))) static void check_at(bool ok, const char *file, int line,
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

#define check(ok, ...) check_at(ok, __FILE__, __LINE__, __VA_ARGS__)
#define check_int(got, expected)                                              \
	do {                                                                  \
		long long g_ = (long long)(got), e_ = (long long)(expected);  \
		check(g_ == e_, "%s: expected %lld, got %lld", #got, e_, g_); \
	} while (0)

/* --- device memory: a window that only the executor can reach, through its alias --- */

enum { WINDOW = 64 << 20, PAGE = 4096 };

static uint8_t *window, *alias;
static size_t used;

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

static void *host_low, *host_high;

static bool host_access(void *cookie, uint64_t address, size_t size, bool write)
{
	(void)cookie;
	(void)write;
	return address >= (uintptr_t)host_low && address + size <= (uintptr_t)host_high;
}

static struct ptx_memory memory;

static void set_up_memory(void)
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

static void *on_host(uint64_t address)
{
	return (void *)((uintptr_t)address + (uintptr_t)memory.alias_delta);
}

/* A device buffer with these contents (zeros when from is NULL). */
static uint64_t buffer(const void *from, size_t size)
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

static char *read_whole(const char *path, size_t *length)
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

static struct ptx_module *load_text(const char *text, size_t length, const char *name)
{
	struct ptx_module *module = NULL;
	char log[256];
	enum ptx_status status = ptx_module_load(text, length, &memory, &module, log, sizeof log);
	check(status == PTX_OK, "%s: status %d: %s", name, status, log);
	if (status != PTX_OK)
		exit(1);
	return module;
}

static struct ptx_module *load_file(const char *path)
{
	size_t length;
	char *text = read_whole(path, &length);
	struct ptx_module *module = load_text(text, length, path);
	free(text);
	return module;
}

static struct ptx_fault fault;
static struct ptx_launch next_launch; /* extras for the next launch; reset by it */

/* Arguments: pointers to the parameters, in order. */
static enum ptx_status launch(const struct ptx_module *module, const char *name, uint32_t grid_x,
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

#define run_ok(...)                                                                            \
	do {                                                                                   \
		enum ptx_status s_ = launch(__VA_ARGS__);                                      \
		check(s_ == PTX_OK, "status %d: %s (line %u)", s_, fault.message, fault.line); \
	} while (0)

static uint32_t seed = 1;

static uint32_t random_bits(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed ^ seed >> 15;
}

static float random_float(void)
{
	return (float)(int32_t)random_bits() / 2147483648.0f;
}

static void check_floats(const float *got, const float *expected, int n, float tolerance,
                         const char *what)
{
	for (int i = 0; i < n; i++) {
		bool same = memcmp(&got[i], &expected[i], sizeof *got) == 0 ||
		            (isnan(got[i]) && isnan(expected[i])) ||
		            fabsf(got[i] - expected[i]) <= tolerance * fabsf(expected[i]);
		check(same, "%s[%d]: expected %.9g, got %.9g", what, i, expected[i], got[i]);
		if (!same)
			return;
	}
}

/* --- kernels of a training --- */

static void test_matmul(const struct ptx_module *m)
{
	enum { M = 37, N = 45, K = 53 };
	static float a[M * K], b[K * N], c[M * N];
	for (int i = 0; i < M * K; i++)
		a[i] = random_float();
	for (int i = 0; i < K * N; i++)
		b[i] = random_float();
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			float sum = 0;
			for (int k = 0; k < K; k++)
				sum = fmaf(a[i * K + k], b[k * N + j], sum);
			c[i * N + j] = sum;
		}
	uint64_t da = buffer(a, sizeof a), db = buffer(b, sizeof b), dc = buffer(NULL, sizeof c);
	int rows = M, columns = N, depth = K;
	run_ok(m, "matmul", 3, 3, 16, 16, &da, &db, &dc, &rows, &columns, &depth);
	check_floats(on_host(dc), c, M * N, 0, "matmul");
	memset(on_host(dc), 0, sizeof c);
	run_ok(m, "matmul_tiled", 3, 3, 16, 16, &da, &db, &dc, &rows, &columns, &depth);
	check_floats(on_host(dc), c, M * N, 0, "matmul_tiled");
}

static void test_elementwise(const struct ptx_module *m)
{
	enum { N = 1000 };
	static float a[N], b[N], c[N];
	int n = N;
	for (int i = 0; i < N; i++) {
		a[i] = random_float();
		b[i] = random_float();
		c[i] = a[i] + b[i];
	}
	uint64_t da = buffer(a, sizeof a), db = buffer(b, sizeof b), dc = buffer(NULL, sizeof c);
	run_ok(m, "vector_add", 4, 1, 256, 1, &da, &db, &dc, &n);
	check_floats(on_host(dc), c, N, 0, "vector_add");

	int rows = 10, columns = 100;
	for (int i = 0; i < N; i++)
		c[i] = fmaxf(a[i] + b[i % columns], 0);
	run_ok(m, "bias_relu", 3, 1, 96, 1, &da, &db, &rows, &columns);
	check_floats(on_host(da), c, N, 0, "bias_relu");

	memcpy(on_host(da), a, sizeof a);
	float rate = 0.1f, decay = 0.01f;
	for (int i = 0; i < N; i++)
		c[i] = a[i] - rate * fmaf(decay, a[i], b[i]);
	run_ok(m, "sgd", 8, 1, 128, 1, &da, &db, &rate, &decay, &n);
	check_floats(on_host(da), c, N, 0, "sgd");
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	set_up_memory();
	static const char *const targets[] = {"sm_75", "sm_100"};
	for (int i = 0; i < 2; i++) {
		char path[100];
		used = 0;
		snprintf(path, sizeof path, SAMPLES "train.%s.ptx", targets[i]);
		struct ptx_module *m = load_file(path);
		test_matmul(m);
		test_elementwise(m);
		ptx_module_unload(m);
		snprintf(path, sizeof path, SAMPLES "integer.%s.ptx", targets[i]);
		m = load_file(path);
		ptx_module_unload(m);
	}
	printf("test_ptx: %d checks, %d failed\n", checks, failures);
	return failures != 0;
}
