/* SPDX-License-Identifier: MIT */
/*
 * Tests the PTX executor by itself: kernels as compilers make them (ptx/samples/), PTX written by
 * hand, faults, and broken text. Run from the root of the repository; `--bench` measures speed
 * instead.
 */
#include "tests/softgpu/ptx/tests/harness.h"

#include <time.h>

/* --- speed --- */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The best of some tries: the machine may have other things to do. */
#define BEST_TIME(...)                                               \
	({                                                           \
		double best_ = 1e9;                                  \
		for (int try_ = 0; try_ < 7; try_++) {               \
			double start_ = now();                       \
			__VA_ARGS__;                                 \
			double seconds_ = now() - start_;            \
			best_ = seconds_ < best_ ? seconds_ : best_; \
		}                                                    \
		best_;                                               \
	})

static void bench_training(void)
{
	struct ptx_module *m = load_file(SAMPLES "nvcc13.0-sm_75/train.ptx");
	int n = 256, labels = 1 << 16;
	uint64_t x[3];
	for (int i = 0; i < 3; i++)
		x[i] = buffer(NULL, 256 * 256 * 4);
	static const char *const names[] = {"matmul", "matmul_tiled"};
	for (int i = 0; i < 2; i++) {
		double t =
		    BEST_TIME(run_ok(m, names[i], 16, 16, 16, 16, &x[0], &x[1], &x[2], &n, &n, &n));
		printf("  %s 256x256x256: %.1f ms, %.0f million multiply-adds/s\n", names[i],
		       t * 1e3, 256.0 * 256 * 256 / t / 1e6);
	}
	double t = BEST_TIME(for (int i = 0; i < 1000; i++)
	                         run_ok(m, "vector_add", 1, 1, 32, 1, &x[0], &x[1], &x[2], &n));
	printf("  launch of one warp: %.1f us\n", t * 1e3);
	t = BEST_TIME(run_ok(m, "vector_add", 256, 1, 256, 1, &x[0], &x[1], &x[2], &labels));
	printf("  vector_add of 65536: %.2f ms\n", t * 1e3);
	ptx_module_unload(m);
}

static void bench(void)
{
	static const char *const threads[] = {"1", "2"};
	for (int i = 0; i < 2; i++) {
		setenv("SOFTGPU_THREADS", threads[i], 1);
		empty_memory();
		struct ptx_module *m = load_file(SAMPLES "nvcc13.0-sm_75/integer.ptx");
		uint64_t y = buffer(NULL, 1 << 20);
		float a = 0.999f, b = 0.001f;
		int rounds = 500;
		double t = BEST_TIME(run_ok(m, "fma_loop", 32, 1, 256, 1, &y, &a, &b, &rounds));
		printf("%s thread(s)\n  fma loop: %.1f billion thread-instructions/s\n", threads[i],
		       32 * 256 * 34.0 * rounds / t / 1e9);
		ptx_module_unload(m);
		bench_training();
	}
}

static struct ptx_module *load_sample(const char *name, const char *target)
{
	char path[100];
	snprintf(path, sizeof path, SAMPLES "%s/%s.ptx", target, name);
	empty_memory();
	return load_file(path);
}

static void test_target(const char *target)
{
	struct ptx_module *m = load_sample("train", target);
	test_training(m);
	ptx_module_unload(m);
	m = load_sample("integer", target);
	test_integers(m);
	test_control(m);
	test_faults(m);
	ptx_module_unload(m);
	m = load_sample("runtime", target);
	test_runtime(m);
	ptx_module_unload(m);
}

/* Compares what all compilers and targets made of the same sources. */
static void test_compilers(void)
{
	static const char *const broad[] = {
	    "nvrtc11.8-sm_50", "nvrtc11.8-sm_70", "nvrtc12.4-sm_60",
	    "nvrtc12.4-sm_90", "nvcc13.0-sm_75",  "nvcc13.0-sm_80",
	    "nvcc13.0-sm_86",  "nvcc13.0-sm_90",  "nvcc13.0-sm_100",
	};
	static const char *const functions[] = {"nvrtc11.8-sm_50", "nvcc13.0-sm_80",
	                                        "nvcc13.0-sm_100"};
	for (size_t i = 0; i < sizeof broad / sizeof *broad; i++) {
		struct ptx_module *m = load_sample("broad", broad[i]);
		test_broad(m);
		ptx_module_unload(m);
	}
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		struct ptx_module *m = load_sample("functions", functions[i]);
		test_mathematics(m);
		ptx_module_unload(m);
	}
}

int main(int argc, char **argv)
{
	set_up_memory();
	if (argc > 1 && !strcmp(argv[1], "--bench")) {
		bench();
		return failures != 0;
	}
	catch_signals();
	static const char *const sets[] = {"avx512", "avx2", "baseline"};
	for (int i = 0; i < 3; i++) {
		setenv("SOFTGPU_ALU", sets[i], 1);
		test_target("nvcc13.0-sm_75");
		test_target("nvcc13.0-sm_100");
		test_compilers();
		test_instructions();
		test_matrices();
		test_mbarriers();
	}
	test_garbage(SAMPLES "nvcc13.0-sm_75/train.ptx");
	test_garbage(SAMPLES "nvcc13.0-sm_100/integer.ptx");
	test_sleep();
	test_parallel();
	test_foreign_signal();
	test_texts();
	printf("test_ptx: %d checks, %d failed\n", checks, failures);
	return failures != 0;
}
