/* SPDX-License-Identifier: MIT */
/* The kernels, and their launch parameters. The driver is opened as libcudart opens it. */
#include "tests/softgpu/cublas/blas.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern const char cublas_kernels[]; /* kernels.S */

static const struct {
	int from, to;
	const char *name;
} kinds[] = {
    {TYPE_F32, TYPE_F32, "product_f32_f32"},     {TYPE_F64, TYPE_F64, "product_f64_f64"},
    {TYPE_F16, TYPE_F16, "product_f16_f16"},     {TYPE_F16, TYPE_F32, "product_f16_f32"},
    {TYPE_BF16, TYPE_BF16, "product_bf16_bf16"}, {TYPE_BF16, TYPE_F32, "product_bf16_f32"},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds), ROWS = 64, COLUMNS = 4, MOST = 65535 };

static __typeof__(cuGetProcAddress_v2) *launch_resolve;
static __typeof__(cuLaunchKernel) *launch_kernel;
static CUkernel kernels[KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *launch_function(const char *name, int version)
{
	CUdriverProcAddressQueryResult status;
	void *function = NULL;
	return launch_resolve(name, &function, version, 0, &status) == CUDA_SUCCESS ? function
	                                                                            : NULL;
}

static void launch_open(void)
{
	__typeof__(cuLibraryLoadData) *load;
	__typeof__(cuLibraryGetKernel) *get;
	CUlibrary library;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (driver)
		*(void **)&launch_resolve = dlsym(driver, "cuGetProcAddress_v2");
	if (!launch_resolve)
		return;
	*(void **)&load = launch_function("cuLibraryLoadData", 12000);
	*(void **)&get = launch_function("cuLibraryGetKernel", 12000);
	if (!load || !get ||
	    load(&library, cublas_kernels, NULL, NULL, 0, NULL, NULL, 0) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < KINDS; i++) {
		if (get(&kernels[i], library, kinds[i].name) != CUDA_SUCCESS)
			return;
	}
	*(void **)&launch_kernel = launch_function("cuLaunchKernel", 4000);
}

int blas_refuse(const char *call, const char *reason)
{
	static char said[64][64];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool is_new = true;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 64 && is_new; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s: %s", call, reason);
		is_new = __builtin_strcmp(said[i], name) != 0;
		if (is_new && !said[i][0]) {
			__builtin_strcpy(said[i], name);
			break;
		}
	}
	if (is_new && !getenv("SOFTGPU_QUIET"))
		fprintf(stderr, "softgpu: %s is not supported%s%s\n", call, *reason ? " " : "",
		        reason);
	pthread_mutex_unlock(&lock);
	return BLAS_NOT_SUPPORTED;
}

int blas_scale_type(int compute)
{
	switch (compute) {
	case COMPUTE_16F:
	case COMPUTE_16F_PEDANTIC:
		return TYPE_F16;
	case COMPUTE_64F:
	case COMPUTE_64F_PEDANTIC:
		return TYPE_F64;
	case COMPUTE_32F:
	case COMPUTE_32F_PEDANTIC:
	case COMPUTE_32F_FAST_16F:
	case COMPUTE_32F_FAST_16BF:
	case COMPUTE_32F_FAST_TF32:
		return TYPE_F32;
	default:
		return -1;
	}
}

/* Returns the value of a half. Compilers before gcc 12 have no type for it on this machine. */
static double half_value(uint16_t bits)
{
	int exponent = bits >> 10 & 0x1f;
	double fraction = bits & 0x3ff, value;

	if (exponent == 0x1f)
		value = fraction != 0 ? NAN : INFINITY;
	else if (exponent)
		value = ldexp(fraction + 0x400, exponent - 25);
	else
		value = ldexp(fraction, -24);
	return bits & 0x8000 ? -value : value;
}

struct product_factor blas_factor(const void *address, int type, bool is_on_device)
{
	if (is_on_device)
		return (struct product_factor){.address = address, .type = type};
	double value = type == TYPE_F64   ? *(const double *)address
	               : type == TYPE_F16 ? half_value(*(const uint16_t *)address)
	                                  : (double)*(const float *)address;
	return (struct product_factor){.value = value, .type = type};
}

struct product_matrix blas_matrix(const void *address, long long leading, int operation,
                                  long long between)
{
	bool is_plain = operation == OPERATION_N;
	return (struct product_matrix){
	    .address = address,
	    .down = is_plain ? 1 : leading,
	    .along = is_plain ? leading : 1,
	    .between = between,
	};
}

int blas_launch(const struct product *product, int from_type, int to_type, CUstream stream)
{
	int kind = 0;
	while (kind < KINDS && (kinds[kind].from != from_type || kinds[kind].to != to_type))
		kind++;
	if (kind == KINDS)
		return blas_refuse("a product of matrices", "of these types");
	if (!product->rows || !product->columns || !product->batches)
		return BLAS_SUCCESS;
	pthread_once(&once, launch_open);
	if (!launch_kernel)
		return BLAS_NOT_INITIALIZED;
	long long across = (product->columns + COLUMNS - 1) / COLUMNS;
	if (across > MOST || product->batches > MOST)
		return blas_refuse("a product of matrices", "of that many columns or batches");
	void *parameters[] = {(void *)product};
	CUresult result =
	    launch_kernel((CUfunction)kernels[kind],
	                  (unsigned int)((product->rows + ROWS - 1) / ROWS), (unsigned int)across,
	                  (unsigned int)product->batches, ROWS, 1, 1, 0, stream, parameters, NULL);
	return result == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_EXECUTION_FAILED;
}
