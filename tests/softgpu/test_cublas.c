/* SPDX-License-Identifier: MIT */
/*
 * Products of matrices by the stand-ins for cuBLAS and cuBLASLt, of CUDA 12 and of 13, against the
 * CPU: to the bit, for a sum has one order.
 */
#include <dlfcn.h>
#include <math.h>

#include "tests/softgpu/cublas/blas.h"
#include "tests/softgpu/test.h"

enum { M = 37, N = 21, K = 53, LEAD = 60, BATCHES = 3, SIZE = LEAD * LEAD };

static void *cublas, *lt;

static void *open_one(const char *name, const char *major)
{
	char path[4096];
	const char *build = getenv("BUILD");
	snprintf(path, sizeof(path), "%s/softgpu/%s.so.%s", build ? build : "build", name, major);
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	return library;
}

static void *find(void *library, const char *name)
{
	void *function = dlsym(library, name);
	if (!function)
		fprintf(stderr, "there is no %s\n", name);
	CHECK(function);
	return function;
}

static size_t size_of(int type)
{
	return type == TYPE_F64 ? 8 : type == TYPE_F32 ? 4 : 2;
}

static double read_element(const void *from, int type, size_t i)
{
	uint32_t wide;
	float single;
	switch (type) {
	case TYPE_F64:
		return ((const double *)from)[i];
	case TYPE_F32:
		return (double)((const float *)from)[i];
	case TYPE_F16:
		return (double)((const _Float16 *)from)[i];
	default:
		wide = (uint32_t)((const uint16_t *)from)[i] << 16;
		memcpy(&single, &wide, sizeof(single));
		return (double)single;
	}
}

static void write_element(void *to, int type, size_t i, double value)
{
	float single = (float)value;
	uint32_t wide;
	switch (type) {
	case TYPE_F64:
		((double *)to)[i] = value;
		break;
	case TYPE_F32:
		((float *)to)[i] = single;
		break;
	case TYPE_F16:
		((_Float16 *)to)[i] = (_Float16)single;
		break;
	default: /* to the nearest, ties to even */
		memcpy(&wide, &single, sizeof(wide));
		((uint16_t *)to)[i] = (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
	}
}

/* One matrix, or several one behind the other, in device memory and on the host. */
struct matrix {
	unsigned char host[SIZE * BATCHES * 8];
	CUdeviceptr device;
	int type;
};

static void fill(struct matrix *m, int type, unsigned int seed)
{
	m->type = type;
	for (size_t i = 0; i < (size_t)SIZE * BATCHES; i++) {
		seed = seed * 1664525 + 1013904223;
		write_element(m->host, type, i, (double)(int)(seed >> 12) / 1048576 - 0.5);
	}
	if (!m->device)
		OK(cuMemAlloc_v2(&m->device, sizeof(m->host)));
	OK(cuMemcpyHtoD_v2(m->device, m->host, sizeof(m->host)));
}

/* op(matrix)'s element in this row and column, of the batch. */
static double element(const struct matrix *m, int transposed, int batch, int row, int column)
{
	int place = transposed ? row * LEAD + column : column * LEAD + row;
	return read_element(m->host, m->type, (size_t)batch * SIZE + (size_t)place);
}

struct wanted {
	int trans_a, trans_b, batches, epilogue;
	double alpha, beta;
	const struct matrix *bias;
};

static struct matrix a, b, c, bias, expected;

static double finished(double value, const struct wanted *how, int row)
{
	if (how->epilogue & EPILOGUE_BIAS)
		value = (double)((float)value + (float)read_element(how->bias->host,
		                                                    how->bias->type, (size_t)row));
	if ((how->epilogue & EPILOGUE_RELU) && !(value > 0))
		value = 0;
	return value;
}

static double product(const struct wanted *how, int batch, int row, int column)
{
	double old = how->beta != 0 ? element(&c, 0, batch, row, column) : 0, wide = 0;
	float single = 0;
	for (int k = 0; k < K; k++) {
		double left = element(&a, how->trans_a, batch, row, k);
		double right = element(&b, how->trans_b, batch, k, column);
		wide = fma(left, right, wide);
		single = fmaf((float)left, (float)right, single);
	}
	if (a.type == TYPE_F64) {
		wide *= how->alpha;
		return how->beta != 0 ? fma(how->beta, old, wide) : wide;
	}
	single *= (float)how->alpha;
	return (double)(how->beta != 0 ? fmaf((float)how->beta, (float)old, single) : single);
}

/* Compares the device's C, where the product belongs and beside it, with the CPU's. */
static void compare(const struct wanted *how)
{
	static unsigned char got[sizeof(c.host)];
	expected = c;
	for (int batch = 0; batch < how->batches; batch++) {
		for (int column = 0; column < N; column++) {
			for (int row = 0; row < M; row++)
				write_element(expected.host, c.type,
				              (size_t)batch * SIZE + (size_t)(column * LEAD + row),
				              finished(product(how, batch, row, column), how, row));
		}
	}
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(got, c.device, sizeof(got)));
	for (size_t i = 0; i < (size_t)SIZE * BATCHES; i++) {
		double want = read_element(expected.host, c.type, i);
		double have = read_element(got, c.type, i);
		if (memcmp(got + i * size_of(c.type), expected.host + i * size_of(c.type),
		           size_of(c.type)) != 0) {
			fprintf(stderr, "type %d to %d, element %zu: %.9g, not %.9g\n", a.type,
			        c.type, i, have, want);
			exit(1);
		}
	}
}

static int (*gemm_ex)(void *, int, int, int, int, int, const void *, CUdeviceptr, int, int,
                      CUdeviceptr, int, int, const void *, CUdeviceptr, int, int, int, int);

static void open_libraries(const char *major)
{
	CUdevice device;
	CUcontext context;
	cublas = open_one("libcublas", major);
	lt = open_one("libcublasLt", major);
	*(void **)&gemm_ex = find(cublas, "cublasGemmEx");
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
}

static void *create_handle(void)
{
	int (*create)(void **) = find(cublas, "cublasCreate_v2");
	void *handle = NULL;
	CHECK(create(&handle) == BLAS_SUCCESS && handle);
	return handle;
}

static void fill_all(int from, int to)
{
	fill(&a, from, 1);
	fill(&b, from, 2);
	fill(&c, to, 3);
}

/* Every pair of types, transposed and not, with and without what C held. */
static void types(void)
{
	static const struct {
		int from, to, compute;
	} kinds[] = {
	    {TYPE_F32, TYPE_F32, COMPUTE_32F},   {TYPE_F64, TYPE_F64, COMPUTE_64F},
	    {TYPE_F16, TYPE_F16, COMPUTE_32F},   {TYPE_F16, TYPE_F32, COMPUTE_32F},
	    {TYPE_BF16, TYPE_BF16, COMPUTE_32F}, {TYPE_BF16, TYPE_F32, COMPUTE_32F},
	};
	void *handle = create_handle();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		for (int how = 0; how < 8; how++) {
			struct wanted want = {.trans_a = how & 1,
			                      .trans_b = how >> 1 & 1,
			                      .batches = 1,
			                      .alpha = 0.75,
			                      .beta = how & 4 ? 0.5 : 0};
			float alpha = 0.75F, beta = (float)want.beta;
			const void *factors[] = {&alpha, &beta};
			if (kinds[i].compute == COMPUTE_64F)
				factors[0] = &want.alpha, factors[1] = &want.beta;
			fill_all(kinds[i].from, kinds[i].to);
			if (want.beta == 0) /* what C held does not count, whatever it is */
				write_element(c.host, c.type, 0, NAN);
			OK(cuMemcpyHtoD_v2(c.device, c.host, sizeof(c.host)));
			CHECK(gemm_ex(handle, want.trans_a, want.trans_b, M, N, K, factors[0],
			              a.device, kinds[i].from, LEAD, b.device, kinds[i].from, LEAD,
			              factors[1], c.device, kinds[i].to, LEAD, kinds[i].compute,
			              -1) == BLAS_SUCCESS);
			compare(&want);
		}
	}
}

static void forms(void)
{
	int (*gemm)(void *, int, int, int, int, int, const void *, CUdeviceptr, int, CUdeviceptr,
	            int, const void *, CUdeviceptr, int) = find(cublas, "cublasSgemm_v2");
	int (*strided)(void *, int, int, int, int, int, const void *, CUdeviceptr, int, long long,
	               CUdeviceptr, int, long long, const void *, CUdeviceptr, int, long long,
	               int) = find(cublas, "cublasSgemmStridedBatched");
	int (*listed)(void *, int, int, int, int, int, const void *, CUdeviceptr, int, CUdeviceptr,
	              int, const void *, CUdeviceptr, int, int) =
	    find(cublas, "cublasSgemmBatched");
	int (*set_mode)(void *, int) = find(cublas, "cublasSetPointerMode_v2");
	int (*set_stream)(void *, CUstream) = find(cublas, "cublasSetStream_v2");
	void *handle = create_handle();
	struct wanted want = {.alpha = 1.5, .beta = 0.25, .batches = BATCHES};
	float alpha = 1.5F, beta = 0.25F;
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(set_stream(handle, stream) == BLAS_SUCCESS);
	fill_all(TYPE_F32, TYPE_F32);
	CHECK(strided(handle, 0, 0, M, N, K, &alpha, a.device, LEAD, SIZE, b.device, LEAD, SIZE,
	              &beta, c.device, LEAD, SIZE, BATCHES) == BLAS_SUCCESS);
	compare(&want);

	/* Lists of addresses, and factors that are in device memory. */
	CUdeviceptr lists, factors, places[3][BATCHES];
	fill_all(TYPE_F32, TYPE_F32);
	for (unsigned int i = 0; i < BATCHES; i++) {
		places[0][i] = a.device + (CUdeviceptr)i * SIZE * 4;
		places[1][i] = b.device + (CUdeviceptr)i * SIZE * 4;
		places[2][i] = c.device + (CUdeviceptr)i * SIZE * 4;
	}
	OK(cuMemAlloc_v2(&lists, sizeof(places)));
	OK(cuMemcpyHtoD_v2(lists, places, sizeof(places)));
	OK(cuMemAlloc_v2(&factors, 8));
	OK(cuMemcpyHtoD_v2(factors, &alpha, 4));
	OK(cuMemcpyHtoD_v2(factors + 4, &beta, 4));
	CHECK(set_mode(handle, 1) == BLAS_SUCCESS);
	CHECK(listed(handle, 0, 0, M, N, K, (void *)factors, lists, LEAD, lists + sizeof(places[0]),
	             LEAD, (void *)(factors + 4), lists + 2 * sizeof(places[0]), LEAD,
	             BATCHES) == BLAS_SUCCESS);
	compare(&want);

	/* A vector is a matrix of one column: here row 0 of B, and the result column 0 of C. */
	int (*gemv)(void *, int, int, int, const void *, CUdeviceptr, int, CUdeviceptr, int,
	            const void *, CUdeviceptr, int) = find(cublas, "cublasSgemv_v2");
	static float got[SIZE];
	fill_all(TYPE_F32, TYPE_F32);
	CHECK(set_mode(handle, 0) == BLAS_SUCCESS);
	CHECK(gemv(handle, 1, K, M, &alpha, a.device, LEAD, b.device, LEAD, &beta, c.device, 1) ==
	      BLAS_SUCCESS);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(got, c.device, sizeof(got)));
	for (int row = 0; row < M; row++) {
		float sum = 0;
		for (int k = 0; k < K; k++)
			sum = fmaf((float)element(&a, 1, 0, row, k), (float)element(&b, 1, 0, k, 0),
			           sum);
		CHECK(got[row] == fmaf(beta, (float)element(&c, 0, 0, row, 0), alpha * sum));
	}

	/* Nothing to do, and mistakes. */
	CHECK(set_mode(handle, 0) == BLAS_SUCCESS);
	CHECK(gemm(handle, 0, 0, 0, N, K, &alpha, a.device, LEAD, b.device, LEAD, &beta, c.device,
	           LEAD) == BLAS_SUCCESS);
	CHECK(gemm(handle, 0, 0, M, N, K, &alpha, a.device, M - 1, b.device, LEAD, &beta, c.device,
	           LEAD) == BLAS_INVALID_VALUE);
	CHECK(gemm(handle, 0, 0, M, -1, K, &alpha, a.device, LEAD, b.device, LEAD, &beta, c.device,
	           LEAD) == BLAS_INVALID_VALUE);
	CHECK(gemm(NULL, 0, 0, M, N, K, &alpha, a.device, LEAD, b.device, LEAD, &beta, c.device,
	           LEAD) == BLAS_NOT_INITIALIZED);
	OK(cuCtxSynchronize());
}

/* A call of each library that is not done says so, and does nothing. */
static void refusals(void)
{
	int (*other)(void) = find(cublas, "cublasStrsm_v2");
	int (*transform)(void) = find(lt, "cublasLtMatrixTransform");
	float one = 1;
	void *handle = create_handle();
	fill_all(TYPE_F32, TYPE_F16);
	CHECK(other() == BLAS_NOT_SUPPORTED && transform() == BLAS_NOT_SUPPORTED);
	CHECK(gemm_ex(handle, 0, 0, M, N, K, &one, a.device, TYPE_F32, LEAD, b.device, TYPE_F32,
	              LEAD, &one, c.device, TYPE_F16, LEAD, COMPUTE_32F, -1) == BLAS_NOT_SUPPORTED);
	CHECK(gemm_ex(handle, 0, 0, M, N, K, &one, a.device, 3, LEAD, b.device, 3, LEAD, &one,
	              c.device, 10, LEAD, 72, -1) == BLAS_NOT_SUPPORTED);
}

enum { EPILOGUE = 7, BIAS_POINTER = 8, ORDER = 1, BY_ROWS = 1, TRANS_A = 3 };

static void with_epilogues(void)
{
	int (*describe)(void **, int, int) = find(lt, "cublasLtMatmulDescCreate");
	int (*set)(void *, int, const void *, size_t) = find(lt, "cublasLtMatmulDescSetAttribute");
	int (*lay_out)(void **, int, uint64_t, uint64_t, int64_t) =
	    find(lt, "cublasLtMatrixLayoutCreate");
	int (*set_layout)(void *, int, const void *, size_t) =
	    find(lt, "cublasLtMatrixLayoutSetAttribute");
	int (*look)(void *, void *, void *, void *, void *, void *, void *, int, void *, int *) =
	    find(lt, "cublasLtMatmulAlgoGetHeuristic");
	int (*multiply)(void *, void *, const void *, CUdeviceptr, void *, CUdeviceptr, void *,
	                const void *, CUdeviceptr, void *, CUdeviceptr, void *, const void *,
	                void *, size_t, CUstream) = find(lt, "cublasLtMatmul");
	void *operation, *layouts[3];
	float alpha = 0.5F, beta = 0;
	unsigned char result[96];
	int count = 0, epilogue = EPILOGUE_RELU | EPILOGUE_BIAS, by_rows = BY_ROWS, transposed = 1;
	struct wanted want = {.alpha = 0.5, .batches = 1, .epilogue = epilogue, .bias = &bias};

	fill_all(TYPE_F32, TYPE_F32);
	fill(&bias, TYPE_F32, 4);
	CHECK(describe(&operation, COMPUTE_32F, TYPE_F32) == BLAS_SUCCESS);
	CHECK(lay_out(&layouts[0], TYPE_F32, M, K, LEAD) == BLAS_SUCCESS);
	CHECK(lay_out(&layouts[1], TYPE_F32, K, N, LEAD) == BLAS_SUCCESS);
	CHECK(lay_out(&layouts[2], TYPE_F32, M, N, LEAD) == BLAS_SUCCESS);
	CHECK(set(operation, EPILOGUE, &epilogue, sizeof(epilogue)) == BLAS_SUCCESS);
	CHECK(multiply(NULL, operation, &alpha, a.device, layouts[0], b.device, layouts[1], &beta,
	               c.device, layouts[2], c.device, layouts[2], NULL, NULL, 0,
	               NULL) == BLAS_INVALID_VALUE); /* no bias yet */
	CHECK(set(operation, BIAS_POINTER, &bias.device, sizeof(bias.device)) == BLAS_SUCCESS);
	CHECK(look(NULL, operation, layouts[0], layouts[1], layouts[2], layouts[2], NULL, 1, result,
	           &count) == BLAS_SUCCESS);
	CHECK(count == 1);
	CHECK(multiply(NULL, operation, &alpha, a.device, layouts[0], b.device, layouts[1], &beta,
	               c.device, layouts[2], c.device, layouts[2], result, NULL, 0,
	               NULL) == BLAS_SUCCESS);
	compare(&want);

	/* Stored by rows is as good as transposed. */
	fill_all(TYPE_F32, TYPE_F32);
	CHECK(set_layout(layouts[0], ORDER, &by_rows, sizeof(by_rows)) == BLAS_SUCCESS);
	want.trans_a = 1;
	CHECK(multiply(NULL, operation, &alpha, a.device, layouts[0], b.device, layouts[1], &beta,
	               c.device, layouts[2], c.device, layouts[2], result, NULL, 0,
	               NULL) == BLAS_SUCCESS);
	compare(&want);
	CHECK(set(operation, TRANS_A, &transposed, sizeof(transposed)) == BLAS_SUCCESS);
	CHECK(look(NULL, operation, layouts[0], layouts[1], layouts[2], layouts[2], NULL, 1, result,
	           &count) == BLAS_INVALID_VALUE); /* the sizes do not fit now */

	/* GELU within the accuracy of tanh. */
	CHECK(set(operation, TRANS_A, &(int){0}, sizeof(int)) == BLAS_SUCCESS);
	epilogue = EPILOGUE_GELU;
	CHECK(set(operation, EPILOGUE, &epilogue, sizeof(epilogue)) == BLAS_SUCCESS);
	fill_all(TYPE_F32, TYPE_F32);
	CHECK(multiply(NULL, operation, &alpha, a.device, layouts[0], b.device, layouts[1], &beta,
	               c.device, layouts[2], c.device, layouts[2], NULL, NULL, 0,
	               NULL) == BLAS_SUCCESS);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(expected.host, c.device, sizeof(expected.host)));
	want.epilogue = 0;
	for (int row = 0; row < M; row++) {
		double x = product(&want, 0, row, 5);
		double gelu = x / 2 * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
		CHECK(fabs(read_element(expected.host, TYPE_F32, (size_t)(5 * LEAD + row)) - gelu) <
		      1e-5);
	}

	/* The derivative of ReLU is none of these, and no heuristic offers it. */
	epilogue = 8 | 128;
	CHECK(set(operation, EPILOGUE, &epilogue, sizeof(epilogue)) == BLAS_SUCCESS);
	CHECK(look(NULL, operation, layouts[0], layouts[1], layouts[2], layouts[2], NULL, 1, result,
	           &count) == BLAS_NOT_SUPPORTED);
	CHECK(count == 0);
}

#define OF_EACH(name)                 \
	static void name##_12(void)   \
	{                             \
		open_libraries("12"); \
		name();               \
	}                             \
	static void name##_13(void)   \
	{                             \
		open_libraries("13"); \
		name();               \
	}
OF_EACH(types)
OF_EACH(forms)
OF_EACH(refusals)
OF_EACH(with_epilogues)

int main(void)
{
	int failed = 0;
	failed += RUN(types_12, NULL);
	failed += RUN(types_13, NULL);
	failed += RUN(forms_12, NULL);
	failed += RUN(forms_13, NULL);
	failed += RUN(refusals_12, "SOFTGPU_QUIET=1");
	failed += RUN(refusals_13, "SOFTGPU_QUIET=1");
	failed += RUN(with_epilogues_12, "SOFTGPU_QUIET=1");
	failed += RUN(with_epilogues_13, "SOFTGPU_QUIET=1");
	return failed != 0;
}
