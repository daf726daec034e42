/* SPDX-License-Identifier: MIT */
/* Tests the kernels of an ordinary training against the same sums in C. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <math.h>

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

void test_training(const struct ptx_module *m)
{
	test_matmul(m);
	test_elementwise(m);
	test_softmax(m);
	test_reductions(m);
	test_functions(m);
}
