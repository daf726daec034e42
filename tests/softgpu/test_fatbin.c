/* SPDX-License-Identifier: MIT */
/* Images as nvcc packs them, and broken ones. The files are nvcc's, from tests/clients/cudart. */
#include <stdint.h>
#include <sys/mman.h>

#include "tests/softgpu/test.h"

#define IMAGES "tests/clients/cudart/kernels."

struct image {
	char *bytes;
	size_t size;
};

static struct image read_image(const char *packing)
{
	char path[128];
	snprintf(path, sizeof(path), IMAGES "%s.fatbin", packing);
	FILE *file = fopen(path, "rb");
	CHECK(file);
	struct image image = {malloc(1 << 20), 0};
	CHECK(image.bytes);
	image.size = fread(image.bytes, 1, 1 << 20, file);
	fclose(file);
	CHECK(image.size > 64);
	return image;
}

/* The record that nvcc's host code hands to __cudaRegisterFatBinary. */
struct wrapper {
	uint32_t magic, version;
	const void *fatbin, *linked;
};

static struct wrapper wrap(const void *fatbin)
{
	return (struct wrapper){0x466243b1U, 1, fatbin, NULL};
}

/* Runs `polynomial` of the module on a few numbers that floats hold exactly. */
static void check_module(CUmodule module)
{
	enum { COUNT = 100 };
	const float factors[4] = {1, 2, 3, 4};
	float in[COUNT], out[COUNT];
	CUfunction polynomial;
	CUdeviceptr coefficients, launches, numbers, results;
	size_t size;
	int count = COUNT;

	for (int i = 0; i < COUNT; i++)
		in[i] = (float)i;
	OK(cuModuleGetFunction(&polynomial, module, "polynomial"));
	OK(cuModuleGetGlobal_v2(&coefficients, &size, module, "coefficients"));
	CHECK(size == sizeof(factors));
	OK(cuModuleGetGlobal_v2(&launches, &size, module, "launches"));
	CHECK(size == sizeof(unsigned int));
	OK(cuMemAlloc_v2(&numbers, sizeof(in)));
	OK(cuMemAlloc_v2(&results, sizeof(out)));
	OK(cuMemcpyHtoD_v2(coefficients, factors, sizeof(factors)));
	OK(cuMemcpyHtoD_v2(numbers, in, sizeof(in)));
	void *arguments[] = {&results, &numbers, &count};
	OK(cuLaunchKernel(polynomial, 4, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
	OK(cuMemcpyDtoH_v2(out, results, sizeof(out)));
	for (int i = 0; i < COUNT; i++)
		CHECK(out[i] == 1 + in[i] * (2 + in[i] * (3 + in[i] * 4)));
	unsigned int seen;
	OK(cuMemcpyDtoH_v2(&seen, launches, sizeof(seen)));
	CHECK(seen == 6);
	OK(cuMemFree_v2(numbers));
	OK(cuMemFree_v2(results));
}

/* Through each call that takes an image. */
static void load_everywhere(const void *image)
{
	CUmodule module;
	CUlibrary library;
	OK(cuModuleLoadData(&module, image));
	check_module(module);
	OK(cuModuleUnload(module));
	OK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
	check_module(module);
	OK(cuModuleUnload(module));
	OK(cuModuleLoadFatBinary(&module, image));
	check_module(module);
	OK(cuModuleUnload(module));
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetModule(&module, library));
	check_module(module);
	OK(cuLibraryUnload(library));
}

static void check_packing(const char *packing)
{
	struct image image = read_image(packing);
	struct wrapper wrapper = wrap(image.bytes);
	start();
	load_everywhere(image.bytes);
	load_everywhere(&wrapper);
	free(image.bytes);
}

static void not_packed(void)
{
	check_packing("none");
}

static void packed_by_lz4(void)
{
	check_packing("lz4");
}

/* Where there is no libzstd.so.1 the answer is NOT_SUPPORTED, and nothing to check here. */
static bool zstd_is_missing(const void *image)
{
	CUmodule module;
	CUresult result = cuModuleLoadData(&module, image);
	if (result == CUDA_SUCCESS)
		OK(cuModuleUnload(module));
	return result == CUDA_ERROR_NOT_SUPPORTED;
}

static void packed_by_zstandard(void)
{
	struct image image = read_image("zstd");
	start();
	if (zstd_is_missing(image.bytes))
		exit(SKIPPED);
	free(image.bytes);
	check_packing("zstd");
}

static void newest_that_fits_is_chosen(void)
{
	struct image image = read_image("mixed"); /* PTX of 75, 80, 90; machine code of 75 */
	start();
	if (zstd_is_missing(image.bytes))
		exit(SKIPPED);
	CUmodule module;
	CUfunction function;
	int version;
	OK(cuModuleLoadData(&module, image.bytes));
	OK(cuModuleGetFunction(&function, module, "polynomial"));
	OK(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function));
	CHECK(version == 80);
	check_module(module);
	free(image.bytes);
}

static void older_device(void)
{
	struct image image = read_image("none"); /* PTX of 75 alone */
	start();
	CUmodule module;
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, image.bytes));
	free(image.bytes);
}

static void expect_everywhere(CUresult result, const void *image)
{
	CUmodule module = NULL;
	CUlibrary library = NULL;
	EXPECT(result, cuModuleLoadData(&module, image));
	EXPECT(result, cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
	EXPECT(result, cuModuleLoadFatBinary(&module, image));
	EXPECT(result, cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(!module && !library);
}

static void nothing_that_fits(void)
{
	start();
	struct image machine = read_image("machine"), newer = read_image("newer");
	struct wrapper wrapper = wrap(machine.bytes);
	expect_everywhere(CUDA_ERROR_NO_BINARY_FOR_GPU, machine.bytes);
	expect_everywhere(CUDA_ERROR_NO_BINARY_FOR_GPU, &wrapper);
	expect_everywhere(CUDA_ERROR_NO_BINARY_FOR_GPU, newer.bytes);
	expect_everywhere(CUDA_ERROR_NO_BINARY_FOR_GPU, "\177ELF\2\1\1");
	free(machine.bytes);
	free(newer.bytes);
}

static void what_is_not_supported(void)
{
	start();
	struct image image = read_image("lz4");
	uint64_t flags;
	char *at = image.bytes + 16 + 40; /* the flags of the first entry */
	memcpy(&flags, at, sizeof(flags));
	CHECK(flags & 0x2000);
	flags ^= 0x2000 | 0x4000; /* packed, but not in a way that is known */
	memcpy(at, &flags, sizeof(flags));
	expect_everywhere(CUDA_ERROR_NOT_SUPPORTED, image.bytes);
	struct wrapper wrapper = {0x466243b1U, 2, image.bytes, image.bytes};
	expect_everywhere(CUDA_ERROR_NOT_SUPPORTED, &wrapper); /* nvcc -rdc=true */
	wrapper = (struct wrapper){0x466243b1U, 9, image.bytes, NULL};
	expect_everywhere(CUDA_ERROR_INVALID_IMAGE, &wrapper);
	wrapper = (struct wrapper){0x466243b1U, 1, NULL, NULL};
	expect_everywhere(CUDA_ERROR_INVALID_IMAGE, &wrapper);
	wrapper.fatbin = (void *)64; /* no memory there */
	expect_everywhere(CUDA_ERROR_INVALID_IMAGE, &wrapper);
	free(image.bytes);
}

/* A page that may not be touched follows the bytes. */
static char *before_a_hole(const char *bytes, size_t size, void **map, size_t *map_size)
{
	size_t page = 4096, pages = (size + page - 1) / page * page;
	*map_size = pages + page;
	*map = mmap(NULL, *map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(*map != MAP_FAILED);
	CHECK(mprotect((char *)*map + pages, page, PROT_NONE) == 0);
	return memcpy((char *)*map + pages - size, bytes, size);
}

static void truncated(void)
{
	static const char *const packings[] = {"none", "lz4", "zstd", "mixed"};
	start();
	for (size_t p = 0; p < sizeof(packings) / sizeof(*packings); p++) {
		struct image image = read_image(packings[p]);
		size_t step = image.size / 60 + 1;
		for (size_t size = 4; size < image.size; size += step) {
			void *map;
			size_t map_size;
			char *bytes = before_a_hole(image.bytes, size, &map, &map_size);
			CUmodule module;
			CUresult result = cuModuleLoadData(&module, bytes);
			CHECK(result == CUDA_ERROR_INVALID_IMAGE ||
			      result == CUDA_ERROR_NOT_SUPPORTED);
			munmap(map, map_size);
		}
		free(image.bytes);
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void load_and_unload(const void *image)
{
	CUmodule module;
	CUlibrary library;
	CUresult result = cuModuleLoadData(&module, image);
	switch (result) {
	case CUDA_SUCCESS:
		OK(cuModuleUnload(module));
		break;
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_OUT_OF_MEMORY: /* a variable may have become large */
		break;
	default:
		CHECK(!"an answer that fits");
	}
	EXPECT(result, cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	if (result == CUDA_SUCCESS)
		OK(cuLibraryUnload(library));
}

static void changed_at_random(void)
{
	static const char *const packings[] = {"none", "lz4", "zstd", "mixed"};
	uint64_t random = 0x9e3779b97f4a7c15;
	start();
	for (size_t p = 0; p < sizeof(packings) / sizeof(*packings); p++) {
		struct image image = read_image(packings[p]);
		char *changed = malloc(image.size);
		CHECK(changed);
		for (int round = 0; round < 300; round++) {
			memcpy(changed, image.bytes, image.size);
			/* Every other time in the headers, where it matters most. */
			size_t range = round & 1 ? 96 : image.size;
			for (uint64_t n = next_random(&random) % 8 + 1; n; n--)
				changed[next_random(&random) % range] = (char)next_random(&random);
			load_and_unload(changed);
		}
		free(changed);
		free(image.bytes);
	}
}

static void random_bytes(void)
{
	static const uint32_t magics[] = {0xba55ed50U, 0x466243b1U, 0x464c457fU};
	uint64_t random = 88172645463325252;
	start();
	for (int round = 0; round < 600; round++) {
		char bytes[512];
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)next_random(&random);
		if (round % 4)
			memcpy(bytes, &magics[round % 4 - 1], sizeof(magics[0]));
		bytes[sizeof(bytes) - 1] = '\0'; /* text ends with it, by contract */
		load_and_unload(bytes);
	}
}

int main(void)
{
	int failed = 0;
	failed += RUN(not_packed, NULL);
	failed += RUN(packed_by_lz4, NULL);
	failed += RUN(packed_by_zstandard, NULL);
	failed += RUN(newest_that_fits_is_chosen, NULL);
	failed += RUN(older_device, "SOFTGPU_QUIET=1 SOFTGPU_ATTRIBUTES=COMPUTE_CAPABILITY_MAJOR=7,"
	                            "COMPUTE_CAPABILITY_MINOR=0");
	failed += RUN(nothing_that_fits, "SOFTGPU_QUIET=1");
	failed += RUN(what_is_not_supported, "SOFTGPU_QUIET=1");
	failed += RUN(truncated, "SOFTGPU_QUIET=1");
	failed += RUN(changed_at_random, "SOFTGPU_QUIET=1");
	failed += RUN(random_bytes, "SOFTGPU_QUIET=1");
	return failed != 0;
}
