/*
 * Tests the PTX executor by itself: kernels that nvcc compiled (ptx/samples/), PTX written by hand,
 * faults, and broken text. Run from the root of the repository; `--bench` measures speed instead.
 */
#include "tests/softgpu/ptx/ptx.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
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

/* --- softmax, reductions, functions --- */

static void test_softmax(const struct ptx_module *m)
{
	enum { ROWS = 5, COLUMNS = 77 };
	static float x[ROWS * COLUMNS], gradient[ROWS * COLUMNS];
	int labels[ROWS], columns = COLUMNS;
	float loss = 0;
	for (int i = 0; i < ROWS * COLUMNS; i++)
		x[i] = 5 * random_float();
	for (int r = 0; r < ROWS; r++) {
		float *row = x + r * COLUMNS, largest = -INFINITY, sum = 0;
		labels[r] = (int)(random_bits() % COLUMNS);
		for (int i = 0; i < COLUMNS; i++)
			largest = fmaxf(largest, row[i]);
		for (int i = 0; i < COLUMNS; i++)
			sum += expf(row[i] - largest);
		for (int i = 0; i < COLUMNS; i++)
			gradient[r * COLUMNS + i] =
			    expf(row[i] - largest) / sum - (i == labels[r] ? 1.0f : 0.0f);
		loss += logf(sum) + largest - row[labels[r]];
	}
	uint64_t dx = buffer(x, sizeof x), dl = buffer(labels, sizeof labels);
	uint64_t dg = buffer(NULL, sizeof x), dloss = buffer(NULL, 4);
	next_launch.dynamic_shared = 64 * 4;
	run_ok(m, "softmax_cross_entropy", ROWS, 1, 64, 1, &dx, &dl, &dg, &dloss, &columns);
	check_floats(on_host(dg), gradient, ROWS * COLUMNS, 2e-6f, "softmax gradient");
	check_floats(on_host(dloss), &loss, 1, 2e-6f, "loss");
}

static void test_reductions(const struct ptx_module *m)
{
	enum { N = 5000, WIDTH = 70 };
	static float x[N], y[N];
	int n = N, columns = WIDTH;
	float sum = 0;
	for (int i = 0; i < N; i++)
		sum += x[i] = (float)(random_bits() % 1000);
	uint64_t dx = buffer(x, sizeof x), dout = buffer(NULL, 4), dy = buffer(NULL, sizeof y);
	run_ok(m, "reduce_sum", 3, 1, 256, 1, &dx, &dout, &n);
	check_floats(on_host(dout), &sum, 1, 0, "reduce_sum"); /* integers: exact in any order */

	for (int r = 0; r < 3; r++) {
		const float *row = x + r * WIDTH;
		float mean = 0, square = 0;
		for (int i = 0; i < WIDTH; i++)
			mean += row[i];
		mean /= WIDTH;
		for (int i = 0; i < WIDTH; i++)
			square = fmaf(row[i] - mean, row[i] - mean, square);
		float inverse = 1 / sqrtf(square / WIDTH + 1e-5f);
		for (int i = 0; i < WIDTH; i++)
			y[r * WIDTH + i] = (row[i] - mean) * inverse;
	}
	run_ok(m, "layer_norm", 3, 1, 64, 1, &dx, &dy, &columns);
	check_floats(on_host(dy), y, 3 * WIDTH, 1e-6f, "layer_norm");

	int index[6] = {3, 0, 2, 2, 1, 3}, width = 5;
	uint64_t di = buffer(index, sizeof index);
	run_ok(m, "embedding", 6, 1, 32, 1, &dx, &di, &dy, &width);
	for (int i = 0; i < 6; i++)
		check_floats((float *)on_host(dy) + i * 20, x + index[i] * 20, 20, 0, "embedding");
}

static void test_functions(const struct ptx_module *m)
{
	enum { N = 600 };
	static float x[N], expected[N * 12];
	int n = N;
	for (int i = 0; i < N; i++) {
		float v = x[i] = i < 500 ? fabsf(8 * random_float()) + 1e-3f : random_float();
		float *e = expected + i * 12;
		e[0] = expf(v);
		e[1] = logf(v);
		e[2] = sqrtf(v);
		e[3] = 1 / sqrtf(v);
		e[4] = 1 / v;
		e[5] = sinf(v);
		e[6] = cosf(v);
		e[7] = tanhf(v);
		e[8] = powf(v, 1.7f);
		e[9] = erff(v);
		e[10] = expf(v) + logf(v) + sinf(v) + 1 / v;
		e[11] = floorf(v) + ceilf(v) + rintf(v) + truncf(v);
	}
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, sizeof expected);
	run_ok(m, "math", 5, 1, 128, 1, &dx, &dy, &n);
	const float *got = on_host(dy);
	static const float tolerance[12] = {1e-6f, 1e-5f, 0,     1e-6f, 0,     2e-5f,
	                                    2e-5f, 1e-6f, 2e-6f, 1e-6f, 2e-5f, 0};
	for (int i = 0; i < N * 12; i++)
		check(got[i] == expected[i] || (isnan(got[i]) && isnan(expected[i])) ||
		          fabsf(got[i] - expected[i]) <=
		              tolerance[i % 12] * (fabsf(expected[i]) + 0.01f),
		      "math %d of %g: expected %.9g, got %.9g", i % 12, x[i / 12], expected[i],
		      got[i]);

	for (int i = 0; i < N; i++)
		expected[i] = 0.5f * x[i] *
		              (1 + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
	run_ok(m, "gelu_tanh", 5, 1, 128, 1, &dx, &dy, &n);
	for (int i = 0; i < N; i++)
		check(fabsf(got[i] - expected[i]) <= 1e-6f * (fabsf(expected[i]) + 0.1f),
		      "gelu of %g: expected %.9g, got %.9g", x[i], expected[i], got[i]);

	float w[64], mo[64], v[64], g[64], rate = 0.01f, b1 = 0.9f, b2 = 0.99f, eps = 1e-8f,
	                                   c1 = 0.1f, c2 = 0.01f;
	int count = 64;
	for (int i = 0; i < 64; i++) {
		w[i] = random_float();
		mo[i] = random_float();
		v[i] = fabsf(random_float());
		g[i] = random_float();
	}
	uint64_t dw = buffer(w, sizeof w), dm = buffer(mo, sizeof mo), dv = buffer(v, sizeof v),
	         dg = buffer(g, sizeof g);
	run_ok(m, "adam", 1, 1, 64, 1, &dw, &dm, &dv, &dg, &rate, &b1, &b2, &eps, &c1, &c2, &count);
	for (int i = 0; i < 64; i++) {
		mo[i] = b1 * mo[i] + (1 - b1) * g[i];
		v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
		w[i] -= rate * (mo[i] / c1) / (sqrtf(v[i] / c2) + eps);
	}
	check_floats(on_host(dw), w, 64, 2e-5f, "adam");
}

/* --- integers and conversions --- */

static uint32_t reverse_bits(uint32_t v)
{
	uint32_t r = 0;
	for (int i = 0; i < 32; i++)
		r |= (v >> i & 1) << (31 - i);
	return r;
}

static void test_bits(const struct ptx_module *m)
{
	enum { N = 300 };
	static uint32_t x[N];
	int n = N;
	for (int i = 0; i < N; i++)
		x[i] = i < 4 ? (uint32_t)i - 2 : random_bits() >> (i % 32);
	x[2] = 0x80000000;
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, sizeof x * 16);
	run_ok(m, "bits", 3, 1, 128, 1, &dx, &dy, &n);
	const uint32_t *got = on_host(dy);
	for (int i = 0; i < N; i++) {
		uint32_t v = x[i], s = (uint32_t)i & 31;
		uint64_t pair = (uint64_t)~v << 32 | v, twice = (uint64_t)i << 32 | v;
		uint32_t permuted = 0;
		for (int k = 0; k < 4; k++)
			permuted |= (uint32_t)(pair >> 8 * (0x5274 >> 4 * k & 7) & 255) << 8 * k;
		int32_t sv = (int32_t)v, low = sv < -5 ? sv : -5;
		int64_t by = i + 1;
		uint32_t e[16] = {
		    (uint32_t)__builtin_popcount(v),
		    v ? (uint32_t)__builtin_clz(v) : 32,
		    reverse_bits(v),
		    permuted,
		    (uint32_t)(twice << s >> 32),
		    (uint32_t)((uint64_t)v * 0x9e3779b9u >> 32),
		    (v & 0xff00ff) ^ (~v | 12345u),
		    (uint32_t)__builtin_ffs(sv),
		    v / 7 + v % 13,
		    (uint32_t)(sv / by),
		    (uint32_t)(sv % by),
		    (uint32_t)low + (v > 77 ? v : 77),
		    (uint32_t)llabs((long long)sv - 1000) + 5,
		    v << 20 || v >> 12 ? (uint32_t)__builtin_clzll((uint64_t)(int64_t)v << 20) : 64,
		    (uint32_t)(((int32_t)(v << 8) >> 8) * 3) + (sv < 0 ? -v : v),
		    (v >> s) + (uint32_t)(sv >> (i & 15)) + (v << (i & 7)),
		};
		for (int k = 0; k < 16; k++)
			check(got[i * 16 + k] == e[k], "bits %d of 0x%x: expected 0x%x, got 0x%x",
			      k, v, e[k], got[i * 16 + k]);
	}
}

static uint16_t half_of(float f)
{
	_Float16 h = (_Float16)f;
	uint16_t bits;
	memcpy(&bits, &h, sizeof bits);
	return isnan(f) ? 0x7fff : bits;
}

static float float_of(uint16_t bits)
{
	_Float16 h;
	memcpy(&h, &bits, sizeof h);
	return (float)h;
}

static uint32_t float_bits(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

static void test_convert(const struct ptx_module *m)
{
	enum { N = 260 };
	static double x[N];
	int n = N;
	double special[] = {0,    -0.0, 0.5,   1.5,    2.5,   -0.5, 1e-8,
	                    6e-8, 6e-5, 70000, -65519, 65520, 3e9};
	for (int i = 0; i < N; i++)
		x[i] = i < 13 ? special[i] : ldexp(random_float(), (int)(random_bits() % 50) - 20);
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, 8 * 12 * N),
	         dz = buffer(NULL, 8 * 6 * N);
	run_ok(m, "convert", 5, 1, 64, 1, &dx, &dy, &dz, &n);
	const long long *y = on_host(dy);
	const double *z = on_host(dz);
	for (int i = 0; i < N; i++) {
		double v = x[i];
		float f = (float)v;
		double t = trunc(f), r = rint(f), c = ceil(f);
		long long clamp = t > INT32_MAX   ? INT32_MAX
		                  : t < INT32_MIN ? INT32_MIN
		                                  : (long long)t;
		uint32_t bf = float_bits(f);
		bf += 0x7fff + (bf >> 16 & 1);
		long long e[12] = {
		    clamp,
		    t < 0            ? 0
		    : t > UINT32_MAX ? UINT32_MAX
		                     : (long long)t,
		    r > INT32_MAX   ? INT32_MAX
		    : r < INT32_MIN ? INT32_MIN
		                    : (long long)r,
		    c > INT32_MAX   ? INT32_MAX
		    : c < INT32_MIN ? INT32_MIN
		                    : (long long)c,
		    (long long)v,
		    (unsigned char)clamp,
		    v > INT32_MAX   ? INT32_MAX
		    : v < INT32_MIN ? INT32_MIN
		                    : (long long)floor(v),
		    half_of(f),
		    bf >> 16,
		    (int32_t)float_bits(float_of(half_of(f)) * 2),
		    0,
		    (int32_t)float_bits(f > 0 ? f < 1 ? f : 1 : 0),
		};
		double wide = f;
		memcpy(&e[10], &wide, sizeof wide);
		for (int k = 0; k < 12; k++)
			check(y[i * 12 + k] == e[k], "convert %d of %.17g: expected %lld, got %lld",
			      k, v, e[k], y[i * 12 + k]);
		double d[6] = {fma(v, v, 1),         sqrt(fabs(v)), 1 / v, exp(v / 100), 0,
		               floor(v) + fmin(v, 2)};
		d[4] = (double)clamp + (double)half_of(f);
		for (int k = 0; k < 6; k++)
			check(z[i * 6 + k] == d[k] ||
			          (k == 3 && fabs(z[i * 6 + k] - d[k]) <= 1e-14 * d[k]),
			      "double %d of %.17g: expected %.17g, got %.17g", k, v, d[k],
			      z[i * 6 + k]);
	}
}

static void test_half(const struct ptx_module *m)
{
	enum { N = 256 };
	static uint16_t x[N], y[N];
	int n = N, pairs = N / 2;
	float a = 0.3333f;
	for (int i = 0; i < N; i++) {
		x[i] = half_of(ldexpf(random_float(), (int)(random_bits() % 30) - 18));
		y[i] = half_of(ldexpf(random_float(), (int)(random_bits() % 30) - 18));
	}
	uint64_t dx = buffer(x, sizeof x), dy = buffer(y, sizeof y);
	run_ok(m, "half_axpy", 1, 1, N, 1, &dx, &dy, &a, &n);
	const uint16_t *got = on_host(dy);
	for (int i = 0; i < N; i++) {
		/* long double holds the sum exactly enough: 64 bits cover these exponents. */
		long double sum =
		    (long double)float_of(half_of(a)) * float_of(x[i]) + float_of(y[i]);
		_Float16 e = (_Float16)sum;
		uint16_t bits;
		memcpy(&bits, &e, sizeof bits);
		check(got[i] == bits, "half_axpy[%d]: expected %04x, got %04x", i, bits, got[i]);
	}
	memcpy(on_host(dy), y, sizeof y);
	run_ok(m, "half2_add", 1, 1, N / 2, 1, &dx, &dy, &pairs);
	for (int i = 0; i < N; i++)
		check_int(got[i], half_of(float_of(x[i]) + float_of(y[i])));
}

/* --- control flow --- */

static int diverge_reference(int v)
{
	int sum = 0;
	if (v < 0)
		return -1;
	for (int a = 0; a < v % 37; a++) {
		if (a % 3 == 0) {
			sum += a;
			if ((v ^ a) & 1)
				continue;
			for (int b = 0; b < (v + a) % 5; b++)
				sum = (int)((unsigned)sum * 3 + (unsigned)b);
		} else if (a > 30 && v > 900) {
			break;
		}
		sum ^= a << 3;
	}
	switch (v % 7) {
	case 0:
		return sum;
	case 1:
		return (int)((unsigned)sum * 17);
	case 2:
		sum -= v * v;
		return sum ^ 0x5555;
	case 3:
		return sum ^ 0x5555;
	case 4:
		return (int)((unsigned)sum * 31);
	case 5:
		return sum / (v + 1);
	default:
		return ~sum;
	}
}

static int collatz(int v, int *steps)
{
	int local[4] = {1, 2, 3, 4};
	while (v != 1) {
		local[*steps & 3] += v;
		v = v & 1 ? 3 * v + 1 : v / 2;
		++*steps;
	}
	return local[0] + local[1] * 3 + local[2] * 5 + local[3] * 7;
}

static int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void test_control(const struct ptx_module *m)
{
	enum { N = 500 };
	static int x[N];
	int n = N;
	for (int i = 0; i < N; i++)
		x[i] = (int)(random_bits() % 2000) - 200;
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, sizeof x);
	const int *got = on_host(dy);
	run_ok(m, "diverge", 4, 1, 128, 1, &dx, &dy, &n);
	for (int i = 0; i < N; i++)
		check(got[i] == diverge_reference(x[i]), "diverge(%d): expected %d, got %d", x[i],
		      diverge_reference(x[i]), got[i]);
	run_ok(m, "calls", 4, 1, 128, 1, &dy, &n);
	for (int i = 0; i < N; i++) {
		int steps = 0, value = collatz(i + 1, &steps);
		int e = (int)((unsigned)value * 1000u) + steps + fibonacci(i % 10);
		check(got[i] == e, "calls(%d): expected %d, got %d", i, e, got[i]);
	}
	run_ok(m, "indirect", 4, 1, 128, 1, &dy, &n);
	for (int i = 0; i < N; i++)
		check_int(got[i], i & 1 ? -i : i * i);

	static int z[64];
	for (int i = 0; i < 64; i++)
		z[i] = i < 32 ? i : 5;
	uint64_t dz = buffer(z, sizeof z), dv = buffer(NULL, 64 * 8 * 4);
	run_ok(m, "votes", 1, 1, 64, 1, &dz, &dv);
	const uint32_t *votes = on_host(dv);
	for (int i = 0; i < 64; i++) {
		int lane = i % 32, base = i - lane;
		uint32_t ballot = 0, odd = 0, even = 0;
		for (int k = 0; k < 32; k++) {
			ballot |= (uint32_t)(z[base + k] > 3) << k;
			odd |= (uint32_t)(k & 1 && z[base + k] & 2) << k;
			even |= (uint32_t)(!(k & 1) && z[base + k] & 1) << k;
		}
		check_int(votes[i * 8 + 0], ballot);
		check_int(votes[i * 8 + 1], 0);
		check_int(votes[i * 8 + 2], 1);
		check_int(votes[i * 8 + 3], 0xffffffff);
		check_int(votes[i * 8 + 4], z[base + (i / 2 & 31)]);
		check_int(votes[i * 8 + 5], z[lane % 8 >= 3 ? i - 3 : i]);
		check_int(votes[i * 8 + 6], i & 1 ? odd : even);
		check_int(votes[i * 8 + 7], 16 + 32);
	}
}

static void test_atomics(const struct ptx_module *m)
{
	enum { BLOCKS = 3, THREADS = 96, N = BLOCKS * THREADS };
	uint32_t u[10] = {0, 0, 100000, ~0u, 0, 0, 0, 0, 7, 0};
	int32_t s[3] = {1000, -1000, 0};
	uint64_t du = buffer(u, sizeof u), ds = buffer(s, sizeof s), df = buffer(NULL, 4);
	uint64_t dd = buffer(NULL, 8), dl = buffer(NULL, 8);
	run_ok(m, "atomics", BLOCKS, 1, THREADS, 1, &du, &ds, &df, &dd, &dl);
	uint32_t sum = 0, xor = 0, most = 0, least = 100000, up = 0, down = 0;
	for (uint32_t i = 0; i < N; i++) {
		sum += i;
		xor ^= i;
		most = i * 7 % 1001 > most ? i * 7 % 1001 : most;
		least = i * 7 % 1001 + 5 < least ? i * 7 % 1001 + 5 : least;
		up = up >= 99 ? 0 : up + 1;
		down = down == 0 || down > 99 ? 99 : down - 1;
	}
	const uint32_t *gu = on_host(du);
	const int32_t *gs = on_host(ds);
	check_int(gu[0], N);
	check_int(gu[1], most);
	check_int(gu[2], least);
	check_int(gu[3], 0xffff0000);
	check_int(gu[4], 0xffffffff);
	check_int(gu[5], xor);
	check_int(gu[6], up);
	check_int(gu[7], down);
	check_int(gu[8], 7 + sum);
	check_int(gu[9], (2 * THREADS + N - 1) * THREADS / 2);
	check_int(gs[0], -100);
	check_int(gs[1], 50);
	check_int(gs[2], -3 * N);
	check(*(float *)on_host(df) == N * 0.5f, "float sum %g", *(float *)on_host(df));
	check(*(double *)on_host(dd) == N * 0.25, "double sum %g", *(double *)on_host(dd));
	check_int(*(uint64_t *)on_host(dl), (uint64_t)N << 33);
}

static void test_progress(const struct ptx_module *m)
{
	uint64_t lock = buffer(NULL, 4), value = buffer(NULL, 4), out = buffer(NULL, 4 * 32);
	run_ok(m, "spin_lock", 2, 1, 512, 1, &lock, &value);
	check_int(*(int *)on_host(value), 1024);
	check_int(*(int *)on_host(lock), 0);
	uint64_t flag = buffer(NULL, 4);
	run_ok(m, "wait_for_warp", 1, 1, 1024, 1, &flag, &out);
	for (int i = 0; i < 32; i++)
		check_int(((int *)on_host(out))[i], 42);
}

static void test_globals(const struct ptx_module *m)
{
	static const int weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
	static const float table[4] = {0.5f, 1.5f, -2.5f, 0};
	uint64_t dy = buffer(NULL, 64 * 8), address;
	size_t size;
	run_ok(m, "globals", 1, 1, 64, 1, &dy);
	for (int i = 0; i < 64; i++)
		check_int(((int *)on_host(dy))[i],
		          weights[i & 7] * 100 + (int)(table[i & 3] * 2) + 15);
	check(ptx_module_global(m, "counter", &address, &size), "no global 'counter'");
	check_int(size, 4);
	check_int(*(int *)on_host(address), 64);
	check(!ptx_module_global(m, "nothing", &address, &size), "found a global 'nothing'");

	struct {
		char tag;
		double value;
		short list[5];
	} pair = {-5, 1000.75, {1, -2, 3, -4, 5}};
	uint8_t padded[32] = {0};
	memcpy(padded, &pair, sizeof pair);
	run_ok(m, "structs", 1, 1, 64, 1, padded, &dy);
	for (int i = 0; i < 64; i++)
		check_int(((long long *)on_host(dy))[i], 995 + pair.list[i % 5]);
}

/* --- single instructions, written by hand --- */

static float as_float(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f;
	memcpy(&f, &low, sizeof f);
	return f;
}

static double as_double(uint64_t bits)
{
	double d;
	memcpy(&d, &bits, sizeof d);
	return d;
}

static uint64_t double_bits(double d)
{
	uint64_t bits;
	memcpy(&bits, &d, sizeof bits);
	return bits;
}

/* Compiled code must not move the operation out of the rounding mode. */
#define ROUNDED(mode, type, expression)        \
	({                                     \
		fesetround(mode);              \
		volatile type r_ = expression; \
		fesetround(FE_TONEAREST);      \
		r_;                            \
	})

#define A32 ((uint32_t)a)
#define B32 ((uint32_t)b)
#define C32 ((uint32_t)c)
#define INSTRUCTIONS(X)                                                                            \
	X("bfe.u32 %r10, %r1, 5, 9;", A32 >> 5 & 511)                                              \
	X("bfe.s32 %r10, %r1, 28, 9;", (uint32_t)((int32_t)A32 >> 28))                             \
	X("bfe.u64 %rd10, %rd1, 60, 8;", a >> 60)                                                  \
	X("bfi.b32 %r10, %r1, %r2, 7, 12;", (B32 & ~(0xfffu << 7)) | (A32 & 0xfff) << 7)           \
	X("bfi.b64 %rd10, %rd1, %rd2, 32, 32;", (b & 0xffffffff) | a << 32)                        \
	X("lop3.b32 %r10, %r1, %r2, %r3, 0x96;", A32 ^ B32 ^ C32)                                  \
	X("lop3.b32 %r10, %r1, %r2, %r3, 0xe8;", (A32 & B32) | (A32 & C32) | (B32 & C32))          \
	X("prmt.b32 %r10, %r1, %r2, 0x8765;",                                                      \
	  (B32 >> 8 & 0xffffff) | (A32 >> 7 & 1 ? 0xff000000u : 0))                                \
	X("shf.r.clamp.b32 %r10, %r1, %r2, 40;", B32)                                              \
	X("shf.r.wrap.b32 %r10, %r1, %r2, 40;", A32 >> 8 | B32 << 24)                              \
	X("shl.b32 %r10, %r1, 32;", 0)                                                             \
	X("shr.s32 %r10, %r1, 77;", (uint32_t)((int32_t)A32 >> 31))                                \
	X("mul.hi.u64 %rd10, %rd1, %rd2;", (uint64_t)((unsigned __int128)a * b >> 64))             \
	X("mul.hi.s64 %rd10, %rd1, %rd2;", (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64))    \
	X("mad.hi.s32 %r10, %r1, %r2, %r3;",                                                       \
	  (uint32_t)((int64_t)(int32_t)A32 * (int32_t)B32 >> 32) + C32)                            \
	X("mad.wide.s32 %rd10, %r1, %r2, %rd3;",                                                   \
	  (uint64_t)((int64_t)(int32_t)A32 * (int32_t)B32) + c)                                    \
	X("mul24.lo.s32 %r10, %r1, %r2;",                                                          \
	  (uint32_t)((int64_t)((int32_t)(A32 << 8) >> 8) * ((int32_t)(B32 << 8) >> 8)))            \
	X("add.cc.u32 %r10, %r1, %r2; addc.u32 %r10, %r3, 0;",                                     \
	  C32 + (uint32_t)(((uint64_t)A32 + B32) >> 32))                                           \
	X("sub.cc.u64 %rd10, %rd1, %rd2; subc.u64 %rd10, %rd3, 0;", c - (a < b))                   \
	X("mad.lo.cc.u32 %r10, %r1, %r2, %r3; madc.hi.u32 %r10, %r1, %r2, 0;",                     \
	  (uint32_t)(((uint64_t)A32 * B32 + C32) >> 32))                                           \
	X("add.sat.s32 %r10, %r1, %r2;", ({                                                        \
		  int64_t sum = (int64_t)(int32_t)A32 + (int32_t)B32;                              \
		  (uint32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);     \
	  }))                                                                                      \
	X("div.s64 %rd10, %rd1, %rd2;", b ? (uint64_t)((int64_t)a / (int64_t)b) : ~0ull)           \
	X("rem.u64 %rd10, %rd1, %rd2;", b ? a % b : a)                                             \
	X("cnot.b32 %r10, %r1;", !A32)                                                             \
	X("bfind.s32 %r10, %r1;", ({                                                               \
		  uint32_t v = (int32_t)A32 < 0 ? ~A32 : A32;                                      \
		  v ? 31 - (uint32_t)__builtin_clz(v) : ~0u;                                       \
	  }))                                                                                      \
	X("brev.b64 %rd10, %rd1;", (uint64_t)reverse_bits(A32) << 32 | reverse_bits(a >> 32))      \
	X("dp4a.s32.u32 %r10, %r1, %r2, %r3;", ({                                                  \
		  uint32_t sum = C32;                                                              \
		  for (int k = 0; k < 32; k += 8)                                                  \
			  sum += (uint32_t)((int8_t)(A32 >> k) * (uint8_t)(B32 >> k));             \
		  sum;                                                                             \
	  }))                                                                                      \
	X("sad.s32 %r10, %r1, %r2, %r3;",                                                          \
	  C32 + (uint32_t)llabs((long long)(int32_t)A32 - (int32_t)B32))                           \
	X("max.s16x2 %r10, %r1, %r2;", ({                                                          \
		  int16_t al = (int16_t)A32, bl = (int16_t)B32;                                    \
		  int16_t ah = (int16_t)(A32 >> 16), bh = (int16_t)(B32 >> 16);                    \
		  (uint32_t)(uint16_t)(al > bl ? al : bl) |                                        \
		      (uint32_t)(uint16_t)(ah > bh ? ah : bh) << 16;                               \
	  }))                                                                                      \
	X("setp.lt.and.s32 %p1|%p2, %r1, %r2, %p0; selp.u32 %r10, 1, 0, %p1;"                      \
	  "@%p2 add.u32 %r10, %r10, 2;",                                                           \
	  c & 1 ? ((int32_t)A32 < (int32_t)B32 ? 1 : 2) : 0)                                       \
	X("setp.hi.xor.u32 %p1, %r1, %r2, !%p0; selp.u32 %r10, 1, 0, %p1;",                        \
	  (A32 > B32) != !(c & 1))                                                                 \
	X("set.ge.u32.s32 %r10, %r1, %r2;", (int32_t)A32 >= (int32_t)B32 ? ~0u : 0)                \
	X("set.ltu.f32.f32 %r10, %r1, %r2;", !(as_float(a) >= as_float(b)) ? 0x3f800000 : 0)       \
	X("slct.u32.s32 %r10, %r1, %r2, %r3;", (int32_t)C32 >= 0 ? A32 : B32)                      \
	X("add.rz.f32 %r10, %r1, %r2;",                                                            \
	  float_bits(ROUNDED(FE_TOWARDZERO, float, as_float(a) + as_float(b))))                    \
	X("fma.rm.f32 %r10, %r1, %r2, %r3;",                                                       \
	  float_bits(ROUNDED(FE_DOWNWARD, float, fmaf(as_float(a), as_float(b), as_float(c)))))    \
	X("div.rp.f64 %rd10, %rd1, %rd2;",                                                         \
	  double_bits(ROUNDED(FE_UPWARD, double, as_double(a) / as_double(b))))                    \
	X("cvt.rz.f32.f64 %r10, %rd1;",                                                            \
	  float_bits(ROUNDED(FE_TOWARDZERO, float, (float)as_double(a))))                          \
	X("cvt.rp.f32.u64 %r10, %rd1;", float_bits(ROUNDED(FE_UPWARD, float, (float)a)))           \
	X("cvt.rn.f32.s64 %r10, %rd1;", float_bits((float)(int64_t)a))                             \
	X("cvt.sat.u8.s32 %r10, %r1;", (int32_t)A32<0 ? 0 : (int32_t)A32> 255 ? 255 : A32)         \
	X("cvt.sat.s16.u64 %r10, %rd1;", a > 32767 ? 32767 : a)                                    \
	X("cvt.s64.s16 %rd10, %rd1;", (uint64_t)(int64_t)(int16_t)a)                               \
	X("cvt.rzi.s8.f32 %r10, %r1;", ({                                                          \
		  float t = truncf(as_float(a));                                                   \
		  (uint32_t)(int32_t)(t > 127 ? 127 : t >= -128 ? t : t < -128 ? -128 : 0);        \
	  }))                                                                                      \
	X("cvt.rzi.u64.f64 %rd10, %rd1;", ({                                                       \
		  double t = as_double(a);                                                         \
		  t >= 0x1p64 ? ~0ull : t > 0 ? (uint64_t)t : isnan(t) ? 1ull << 63 : 0;           \
	  }))                                                                                      \
	X("mul.ftz.f32 %r10, %r1, 0f00800000;", ({                                                 \
		  float f =                                                                        \
		      fabsf(as_float(a)) < 0x1p-126f ? copysignf(0, as_float(a)) : as_float(a);    \
		  f *= 0x1p-126f;                                                                  \
		  float_bits(fabsf(f) < 0x1p-126f ? copysignf(0, f) : f);                          \
	  }))                                                                                      \
	X("min.NaN.f32 %r10, %r1, %r2;", isnan(as_float(a))          ? A32                         \
	                                 : isnan(as_float(b))        ? B32                         \
	                                 : as_float(a) < as_float(b) ? A32                         \
	                                                             : B32)                        \
	X("testp.subnormal.f32 %p1, %r1; selp.u32 %r10, 1, 0, %p1;",                               \
	  fpclassify(as_float(a)) == FP_SUBNORMAL)                                                 \
	X("copysign.f64 %rd10, %rd1, %rd2;", (a & 1ull << 63) | (b & ~(1ull << 63)))               \
	X("mov.b64 {%r11, %r12}, %rd1; mov.b64 %rd10, {%r12, %r11};", a << 32 | a >> 32)           \
	X("mov.b64 {_, %r10}, %rd1;", a >> 32)                                                     \
	X("@%p0 mov.u32 %r10, 7; @!%p0 mov.u32 %r10, 9;", c & 1 ? 7 : 9)                           \
	X("cvt.u32.u64 %r11, %rd3; and.b32 %r11, %r11, 3; "                                        \
	  "ts: .branchtargets L0, L1, L2, L1; brx.idx %r11, ts; "                                  \
	  "L0: mov.u32 %r10, 100; bra.uni LE; L1: add.u32 %r10, %r1, 1; bra LE; "                  \
	  "L2: sub.u32 %r10, %r1, 1; LE:",                                                         \
	  (c & 3) == 0   ? 100                                                                     \
	  : (c & 3) == 2 ? A32 - 1                                                                 \
	                 : A32 + 1)                                                                \
	X("match.any.sync.b32 %r11, %r1, 0xffffffff; and.b32 %r11, %r11, %lanemask_eq;"            \
	  "setp.eq.u32 %p1, %r11, %lanemask_eq; selp.u32 %r10, 1, 0, %p1;",                        \
	  1)                                                                                       \
	X("redux.sync.or.b32 %r11, %r1, 0xffffffff; not.b32 %r11, %r11; and.b32 %r10, %r11, %r1;", \
	  0)                                                                                       \
	X("bmsk.clamp.b32 %r10, 3, 7;", 0x3f8)                                                     \
	X("isspacep.shared %p1, %rd1; selp.u32 %r10, 1, 0, %p1;", a >> 56 == 1)

static uint64_t interesting(int i)
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

static uint64_t expected_of(int which, uint64_t a, uint64_t b, uint64_t c)
{
	int i = 0;
#define CASE(text, value) \
	if (which == i++) \
		return (uint64_t)(value);
	INSTRUCTIONS(CASE)
#undef CASE
	return 0;
}

/* NaNs are equal whatever their bits: hardware has one, the host keeps payloads. */
static bool same_result(const char *text, uint64_t got, uint64_t expected)
{
	if (got == expected)
		return true;
	if (strstr(text, ".f64 %rd10"))
		return isnan(as_double(got)) && isnan(as_double(expected));
	return strstr(text, "f32") && isnan(as_float(got)) && isnan(as_float(expected));
}

static void test_instructions(void)
{
#define TEXT(text, value) text,
	static const char *const texts[] = {INSTRUCTIONS(TEXT)};
#undef TEXT
	enum { N = 256 };
	static uint64_t in[N * 4];
	size_t before = used;
	for (int k = 0; k < (int)(sizeof texts / sizeof *texts); k++) {
		char ptx[2048];
		snprintf(ptx, sizeof ptx,
		         ".version 8.0\n.target sm_90\n.address_size 64\n"
		         ".visible .entry f(.param .u64 in, .param .u64 out) {\n"
		         ".reg .b64 %%rd<16>; .reg .b32 %%r<16>; .reg .pred %%p<4>;\n"
		         "ld.param.u64 %%rd14, [in]; ld.param.u64 %%rd15, [out];\n"
		         "mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x;\n"
		         "mad.lo.u32 %%r3, %%r1, %%r2, %%tid.x;\n"
		         "mad.wide.u32 %%rd14, %%r3, 32, %%rd14; mad.wide.u32 %%rd15, %%r3, 8, "
		         "%%rd15;\n"
		         "ld.global.v2.u64 {%%rd1, %%rd2}, [%%rd14]; ld.global.u64 %%rd3, "
		         "[%%rd14+16];\n"
		         "cvt.u32.u64 %%r1, %%rd1; cvt.u32.u64 %%r2, %%rd2; cvt.u32.u64 %%r3, "
		         "%%rd3;\n"
		         "and.b32 %%r9, %%r3, 1; setp.ne.u32 %%p0, %%r9, 0;\n"
		         "mov.u64 %%rd10, 0; mov.u32 %%r10, 0;\n%s\n"
		         "cvt.u64.u32 %%rd11, %%r10; add.u64 %%rd10, %%rd10, %%rd11;\n"
		         "st.global.u64 [%%rd15], %%rd10; ret; }\n",
		         texts[k]);
		for (int i = 0; i < N * 4; i++)
			in[i] = interesting(i / 4 + i % 4);
		used = before;
		uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, N * 8);
		struct ptx_module *m = load_text(ptx, strlen(ptx), texts[k]);
		run_ok(m, "f", 2, 1, N / 2, 1, &din, &dout);
		const uint64_t *got = on_host(dout);
		for (int i = 0; i < N; i++) {
			const uint64_t *v = in + i * 4;
			uint64_t e = expected_of(k, v[0], v[1], v[2]);
			check(same_result(texts[k], got[i], e),
			      "%s of %#llx %#llx %#llx: expected %#llx, got %#llx", texts[k],
			      (long long)v[0], (long long)v[1], (long long)v[2], (long long)e,
			      (long long)got[i]);
		}
		ptx_module_unload(m);
	}
}

/* --- what needs more than instructions --- */

static void test_runtime(const struct ptx_module *m)
{
	enum { N = 4 * 64 };
	static int x[N];
	uint64_t dx = buffer(NULL, sizeof x), dy = buffer(NULL, sizeof x);
	next_launch.cooperative = true;
	run_ok(m, "grid_sync", 4, 1, 64, 1, &dx, &dy);
	for (int i = 0; i < N; i++)
		check_int(((int *)on_host(dy))[i], N - i);

	for (int i = 0; i < N; i++)
		x[i] = i == 37 ? 10 : i % 10;
	memcpy(on_host(dx), x, sizeof x);
	enum ptx_status s = launch(m, "assert_small", 1, 1, 64, 1, &dx);
	check(s == PTX_ASSERT && fault.thread[0] == 37, "assert: status %d, thread %u", s,
	      fault.thread[0]);
	check(strstr(fault.message, "x[threadIdx.x] < 10"), "assert: message '%s'", fault.message);

	int big[20], bins[16] = {0}, n = N;
	for (int i = 0; i < 20; i++)
		big[i] = i * i;
	run_ok(m, "structures", 1, 1, 64, 1, big, &dy);
	for (int i = 0; i < 64; i++) {
		int copy[20], k = i % 20;
		memcpy(copy, big, sizeof big);
		copy[3] = i;
		copy[k & 7] += 5;
		check_int(((int *)on_host(dy))[i], copy[k] + copy[k & 3]);
	}
	unsigned __int128 w[40];
	for (int i = 0; i < 40; i++)
		w[i] = (unsigned __int128)interesting(1) << 64 | interesting(3);
	uint64_t dw = buffer(w, sizeof w), dv = buffer(NULL, 32 * 16);
	run_ok(m, "wide", 1, 1, 32, 1, &dw, &dv);
	for (int i = 0; i < 32; i++) {
		unsigned __int128 e = w[i] * w[i + 1] + w[i + 2] - (w[i] >> 3);
		check(!memcmp((char *)on_host(dv) + i * 16, &e, 16), "wide: %d differs", i);
	}
	for (int i = 0; i < N; i++) {
		x[i] = (int)random_bits();
		bins[x[i] & 15]++;
	}
	memcpy(on_host(dx), x, sizeof x);
	uint64_t db = buffer(NULL, sizeof bins);
	run_ok(m, "shared_atomics", 1, 1, 96, 1, &dx, &db, &n);
	for (int i = 0; i < 16; i++)
		check_int(((int *)on_host(db))[i], bins[i]);
	uint64_t lock = buffer(NULL, 4), value = buffer(NULL, 4);
	run_ok(m, "classic_lock", 2, 1, 128, 1, &lock, &value);
	check_int(*(int *)on_host(value), 256);
	run_ok(m, "no_wait", 1, 1, 128, 1, &dy);
	for (int i = 0; i < 64; i++)
		check(((int *)on_host(dy))[i] >= 2, "no_wait: %d", ((int *)on_host(dy))[i]);
}

/* printf of a kernel, caught in a file. */
static void test_print(const struct ptx_module *m)
{
	char text[200] = "", path[] = "/tmp/test_ptx.XXXXXX";
	int n = 5, file = mkstemp(path), saved = dup(1);
	fflush(stdout);
	dup2(file, 1);
	run_ok(m, "print", 1, 1, 32, 1, &n);
	fflush(stdout);
	dup2(saved, 1);
	check(pread(file, text, sizeof text - 1, 0) > 0, "nothing was printed");
	check(!strcmp(text, "thread 0 of 5: pi is 3.14 123456789abc%\n"
	                    "thread 1 of 5: pi is 3.14 123456789abc%\n"),
	      "printed '%s'", text);
	unlink(path);
	close(file);
	close(saved);
}

/* --- faults --- */

static int polls;

static int poll_three_times(void *cookie)
{
	(void)cookie;
	return ++polls >= 3;
}

static void check_fault(enum ptx_status got, enum ptx_status expected, const char *name,
                        uint64_t address, uint32_t thread, bool write)
{
	check(got == expected, "%s: expected status %d, got %d: %s", name, expected, got,
	      fault.message);
	check(fault.function && !strcmp(fault.function, name), "%s: the fault is in %s", name,
	      fault.function ? fault.function : "nothing");
	check(fault.address == address, "%s: expected address %#llx, got %#llx", name,
	      (unsigned long long)address, (unsigned long long)fault.address);
	check(fault.thread[0] == thread, "%s: expected thread %u, got %u", name, thread,
	      fault.thread[0]);
	check(fault.write == write, "%s: expected write %d, got %d", name, write, fault.write);
	check(fault.message[0] && fault.line, "%s: no message or line", name);
}

static void test_faults(const struct ptx_module *m)
{
	int zero = 0, values[32] = {[9] = 3};
	uint64_t d = buffer(NULL, PAGE), null = 0;
	long long far = PAGE / 4 / 8;
	enum ptx_status s = launch(m, "misaligned", 1, 1, 32, 1, &d);
	check_fault(s, PTX_MISALIGNED, "misaligned", d + 2, 1, true);
	/* Thread 8 is the first past the page, which the next one does not follow. */
	s = launch(m, "touch", 1, 1, 32, 1, &d, &far);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "touch", d + PAGE, 8, true);
	s = launch(m, "touch", 1, 1, 32, 1, &null, &far);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "touch", 0, 0, true);
	uint64_t end = (uintptr_t)window + WINDOW - 4;
	s = launch(m, "peek", 1, 1, 32, 1, &end, &d);
	check(s == PTX_ILLEGAL_ADDRESS, "past the window: status %d", s);
	*(int *)on_host(d) = 1;
	s = launch(m, "past_shared", 1, 1, 8, 1, &d);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "past_shared", 32, 7, true);
	*(int *)on_host(d) = zero;
	run_ok(m, "past_shared", 1, 1, 8, 1, &d);
	uint64_t dv = buffer(values, sizeof values);
	s = launch(m, "trap_if", 1, 1, 32, 1, &dv);
	check(s == PTX_TRAP && fault.thread[0] == 9, "trap: status %d, thread %u", s,
	      fault.thread[0]);
	polls = 0;
	next_launch.poll = poll_three_times;
	next_launch.poll_instructions = 5000;
	s = launch(m, "forever", 1, 1, 64, 1, &dv);
	check(s == PTX_STOPPED && polls == 3, "poll: status %d after %d calls", s, polls);

	static int host[64];
	host_low = host;
	host_high = host + 64;
	uint64_t dh = (uintptr_t)host;
	for (int i = 0; i < 64; i++)
		host[i] = i * i;
	run_ok(m, "peek", 1, 1, 64, 1, &dh, &d);
	check(!memcmp(on_host(d), host, sizeof host), "host memory is not what the kernel read");
	host_high = host + 63;
	s = launch(m, "peek", 1, 1, 64, 1, &dh, &d);
	check_fault(s, PTX_ILLEGAL_ADDRESS, "peek", (uintptr_t)(host + 63), 63, false);
	host_low = host_high = NULL;
	run_ok(m, "globals", 1, 1, 64, 1, &d); /* after all that, launches still work */
}

static sigjmp_buf escaped;

static void escape(int number)
{
	(void)number;
	siglongjmp(escaped, 1);
}

/* A signal that is not a kernel's goes to the handler that was there before. */
static void test_foreign_signal(void)
{
	int *volatile nowhere = (int *)window;
	if (!sigsetjmp(escaped, 1)) {
		*nowhere = 1;
		check(false, "the window can be written by the application");
	}
}

/* --- text --- */

static void test_texts(void)
{
	static const struct {
		const char *text;
		enum ptx_status status;
		const char *log;
	} cases[] = {
	    {"", PTX_INVALID, "line 1: expected .version"},
	    {".version 7.0\n.target sm_75\n.address_size 64\n.entry f() {\n  frob.u32 %r1, 2;\n}",
	     PTX_NOT_SUPPORTED, "line 5: instruction frob.u32"},
	    {".version 7.0\n.entry f() {\n  .reg .b32 %r<2>;\n\n  add.frob.u32 %r1, %r1, 2;\n}",
	     PTX_NOT_SUPPORTED, "line 5: instruction add.frob.u32 (.frob)"},
	    {".version 7.0\n.entry f() { add.u32 %r1, %r1, 2; }", PTX_INVALID,
	     "line 2: add.u32: '%r1' is not declared"},
	    {".version 7.0\n.entry f() { bra L; }", PTX_INVALID, "line 2: 'L' is not a label"},
	    {".version 7.0\n.entry f() {\n", PTX_INVALID, "line 2: '{' without '}'"},
	    {".version 7.0\n.entry f() { .reg .b32 %r<2>; mov.u32 %r1, 0xzz; }", PTX_INVALID,
	     "line 2: bad number '0xzz'"},
	    {".version 7.0\n.extern .func g();\n.entry f() { call g, (); }", PTX_NOT_SUPPORTED,
	     "line 3: function g has no body here"},
	    {".version 7.0\n/* no end", PTX_INVALID, "line 2: comment without end"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ptx_module *m = NULL;
		char log[200];
		enum ptx_status status = ptx_module_load(cases[i].text, strlen(cases[i].text),
		                                         &memory, &m, log, sizeof log);
		check(status == cases[i].status, "text %zu: expected status %d, got %d (%s)", i,
		      cases[i].status, status, log);
		check(!strncmp(log, cases[i].log, strlen(cases[i].log)),
		      "text %zu: expected \"%s\", got \"%s\"", i, cases[i].log, log);
		check(!m, "text %zu: a module in spite of the error", i);
	}
}

/* Whatever the text, loading returns. */
static void test_garbage(const char *path)
{
	size_t length;
	char *text = read_whole(path, &length), log[100];
	/* A short copy: damage is found early, so most of a long text would only cost time. */
	char *damaged = malloc(length);
	for (int round = 0; round < 400; round++) {
		struct ptx_module *m = NULL;
		size_t n = length;
		memcpy(damaged, text, length);
		if (round % 2)
			n = random_bits() % length;
		for (uint32_t k = random_bits() % 20; k && n; k--) {
			size_t at = random_bits() % n;
			damaged[at] =
			    round % 3 ? text[random_bits() % length] : (char)random_bits();
		}
		used = 0;
		if (ptx_module_load(damaged, n, &memory, &m, log, sizeof log) == PTX_OK)
			ptx_module_unload(m);
	}
	free(damaged);
	free(text);
	checks++;
}

/* --- speed --- */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bench(void)
{
	struct ptx_module *m = load_file(SAMPLES "integer.sm_75.ptx");
	uint64_t y = buffer(NULL, 1 << 20);
	float a = 0.999f, b = 0.001f;
	int rounds = 2000;
	double start = now();
	run_ok(m, "fma_loop", 8, 1, 256, 1, &y, &a, &b, &rounds);
	double seconds = now() - start;
	printf("fma loop: %.0f million thread-instructions/s\n",
	       8 * 256 * 34.0 * rounds / seconds / 1e6);
	ptx_module_unload(m);

	m = load_file(SAMPLES "train.sm_75.ptx");
	int n = 256;
	uint64_t x[3];
	for (int i = 0; i < 3; i++)
		x[i] = buffer(NULL, 256 * 256 * 4);
	static const char *const names[] = {"matmul", "matmul_tiled"};
	for (int i = 0; i < 2; i++) {
		start = now();
		run_ok(m, names[i], 16, 16, 16, 16, &x[0], &x[1], &x[2], &n, &n, &n);
		seconds = now() - start;
		printf("%s 256x256x256: %.1f ms, %.0f million multiply-adds/s\n", names[i],
		       seconds * 1e3, 256.0 * 256 * 256 / seconds / 1e6);
	}
	int labels = 1 << 16;
	start = now();
	for (int i = 0; i < 1000; i++)
		run_ok(m, "vector_add", 1, 1, 32, 1, &x[0], &x[1], &x[2], &n);
	printf("launch of one warp: %.1f us\n", (now() - start) * 1e3);
	start = now();
	run_ok(m, "vector_add", 256, 1, 256, 1, &x[0], &x[1], &x[2], &labels);
	printf("vector_add of 65536: %.2f ms\n", (now() - start) * 1e3);
	ptx_module_unload(m);
}

static struct ptx_module *load_sample(const char *name, const char *target)
{
	char path[100];
	snprintf(path, sizeof path, SAMPLES "%s.%s.ptx", name, target);
	used = 0;
	return load_file(path);
}

static void test_target(const char *target)
{
	struct ptx_module *m = load_sample("train", target);
	test_matmul(m);
	test_elementwise(m);
	test_softmax(m);
	test_reductions(m);
	test_functions(m);
	ptx_module_unload(m);
	m = load_sample("integer", target);
	test_bits(m);
	test_convert(m);
	test_half(m);
	test_control(m);
	test_atomics(m);
	test_progress(m);
	test_globals(m);
	test_faults(m);
	ptx_module_unload(m);
	m = load_sample("runtime", target);
	test_runtime(m);
	test_print(m);
	ptx_module_unload(m);
}

int main(int argc, char **argv)
{
	set_up_memory();
	if (argc > 1 && !strcmp(argv[1], "--bench")) {
		bench();
		return failures != 0;
	}
	signal(SIGSEGV, escape);
	signal(SIGBUS, escape);
	static const char *const sets[] = {"avx512", "avx2", "baseline"};
	for (int i = 0; i < 3; i++) {
		setenv("SOFTGPU_ALU", sets[i], 1);
		test_target("sm_75");
		test_target("sm_100");
		test_instructions();
	}
	test_garbage(SAMPLES "train.sm_75.ptx");
	test_garbage(SAMPLES "integer.sm_100.ptx");
	test_foreign_signal();
	test_texts();
	printf("test_ptx: %d checks, %d failed\n", checks, failures);
	return failures != 0;
}
