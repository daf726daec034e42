/* SPDX-License-Identifier: MIT */
/*
 * arrays: makes arrays and memory as its input says, a command per line, and answers each with a
 * line, as driven.c does. NAME is a letter.
 *
 *   array NAME FORMAT WIDTH HEIGHT DEPTH   FORMAT: byte, word, nv12 or bc7; the error
 *   mipmaps NAME WIDTH HEIGHT LEVELS       of words; the error
 *   alloc NAME KIB                         plain memory; the error
 *   fill NAME VALUE                        all words or bytes, of all levels; the error
 *   check NAME VALUE                       how many bytes of rows differ
 *   copy TO FROM                           an array's first rows to memory, or the other way, or as
 *                                          much of memory as fits a row; the error
 *   free NAME                              the error
 *   info                                   free bytes
 *   module KIB                             loads code with a variable of that size; the error
 *   context, leave                         makes one more, current | destroys it; the error
 */
#include <stdbool.h>
#include <string.h>

#include "tests/e2e/elastic.h"

enum { LEVELS_MAX = 32, WORDS_MAX = 8 };

static struct elastic gpu;
static CUcontext extra;

static struct thing {
	enum { NOTHING, MEMORY, ARRAY, MIPMAPS } kind;
	CUarray array;
	CUmipmappedArray mipmaps;
	CUdeviceptr memory;
	size_t size; /* of memory */
} things[26];

static struct thing *named(const char *name)
{
	if (!name || name[0] < 'a' || name[0] > 'z' || name[1]) {
		fprintf(stderr, "arrays: '%s': expected a letter\n", name ? name : "");
		exit(2);
	}
	return &things[name[0] - 'a'];
}

static size_t number(const char *text)
{
	return text ? strtoull(text, NULL, 10) : 0;
}

/* Sets what a word names; a word where it names nothing. */
static void set_format(CUDA_ARRAY3D_DESCRIPTOR *shape, const char *name)
{
	static const struct {
		const char *name;
		CUarray_format format;
		unsigned int channels;
	} formats[] = {{"byte", CU_AD_FORMAT_UNSIGNED_INT8, 1},
	               {"nv12", CU_AD_FORMAT_NV12, 3},
	               {"bc7", CU_AD_FORMAT_BC7_UNORM, 4}};

	shape->Format = CU_AD_FORMAT_UNSIGNED_INT32;
	shape->NumChannels = 1;
	for (size_t i = 0; name && i < sizeof(formats) / sizeof(*formats); i++) {
		if (strcmp(name, formats[i].name) != 0)
			continue;
		shape->Format = formats[i].format;
		shape->NumChannels = formats[i].channels;
	}
}

static CUresult make_array(struct thing *thing, char **words)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
	    .Width = number(words[1]), .Height = number(words[2]), .Depth = number(words[3])};

	set_format(&shape, words[0]);
	thing->kind = ARRAY;
	return cuArray3DCreate_v2(&thing->array, &shape);
}

static CUresult make_mipmaps(struct thing *thing, char **words)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = number(words[0]),
	                                 .Height = number(words[1]),
	                                 .Format = CU_AD_FORMAT_UNSIGNED_INT32,
	                                 .NumChannels = 1};

	thing->kind = MIPMAPS;
	return cuMipmappedArrayCreate(&thing->mipmaps, &shape, (unsigned int)number(words[2]));
}

static CUresult make_memory(struct thing *thing, char **words)
{
	thing->kind = MEMORY;
	thing->size = number(words[0]) << 10;
	return cuMemAlloc_v2(&thing->memory, thing->size);
}

/* The bytes of a row; sets how many rows there are in how many planes. */
static size_t row_of(CUarray array, size_t *rows, size_t *planes)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;

	CHECK(cuArray3DGetDescriptor_v2(&shape, array));
	*rows = shape.Height ? shape.Height : 1;
	*planes = shape.Depth ? shape.Depth : 1;
	return shape.Width * (shape.Format == CU_AD_FORMAT_UNSIGNED_INT8 ? 1 : 4);
}

static CUresult fill_array(CUarray array, int value)
{
	size_t rows, planes, row = row_of(array, &rows, &planes);
	char *bytes = malloc(row * rows * planes);
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                      .srcHost = bytes,
	                      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
	                      .dstArray = array,
	                      .WidthInBytes = row,
	                      .Height = rows,
	                      .Depth = planes};
	CUresult result;

	memset(bytes, value, row * rows * planes);
	result = cuMemcpy3D_v2(&copy);
	free(bytes);
	return result;
}

static size_t count_other(const char *bytes, size_t count, int value)
{
	size_t other = 0;

	for (size_t i = 0; i < count; i++)
		other += (unsigned char)bytes[i] != (unsigned char)value;
	return other;
}

static size_t check_array(CUarray array, int value)
{
	size_t rows, planes, row = row_of(array, &rows, &planes), other;
	char *bytes = calloc(row * rows, planes);
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
	                      .srcArray = array,
	                      .dstMemoryType = CU_MEMORYTYPE_HOST,
	                      .dstHost = bytes,
	                      .WidthInBytes = row,
	                      .Height = rows,
	                      .Depth = planes};

	CHECK(cuMemcpy3D_v2(&copy));
	other = count_other(bytes, row * rows * planes, value);
	free(bytes);
	return other;
}

static size_t check_memory(const struct thing *thing, int value)
{
	char *bytes = malloc(thing->size);
	size_t other;

	CHECK(cuMemcpyDtoH_v2(bytes, thing->memory, thing->size));
	other = count_other(bytes, thing->size, value);
	free(bytes);
	return other;
}

/* Fills or checks all levels that there are. */
static size_t each_level(const struct thing *thing, int value, bool fills)
{
	size_t sum = 0;
	CUarray level;

	for (unsigned int i = 0; i < LEVELS_MAX; i++) {
		if (cuMipmappedArrayGetLevel(&level, thing->mipmaps, i) != CUDA_SUCCESS)
			break;
		sum += fills ? (size_t)fill_array(level, value) : check_array(level, value);
	}
	return sum;
}

static size_t fill(const struct thing *thing, int value)
{
	if (thing->kind == MEMORY)
		return (size_t)cuMemsetD8_v2(thing->memory, (unsigned char)value, thing->size);
	return thing->kind == MIPMAPS ? each_level(thing, value, true)
	                              : (size_t)fill_array(thing->array, value);
}

static size_t differing(const struct thing *thing, int value)
{
	if (thing->kind == MEMORY)
		return check_memory(thing, value);
	return thing->kind == MIPMAPS ? each_level(thing, value, false)
	                              : check_array(thing->array, value);
}

static CUresult copy(const struct thing *to, const struct thing *from)
{
	const struct thing *array = to->kind == ARRAY ? to : from;
	const struct thing *memory = to->kind == ARRAY ? from : to;
	size_t rows, planes, row = row_of(array->array, &rows, &planes);
	CUDA_MEMCPY2D plane = {.WidthInBytes = row,
	                       .Height = rows < memory->size / row ? rows : memory->size / row};

	if (rows == 1)
		return to == array ? cuMemcpyDtoA_v2(to->array, 0, from->memory, row)
		                   : cuMemcpyAtoD_v2(to->memory, from->array, 0, row);
	plane.dstMemoryType = to == array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
	plane.srcMemoryType = to == array ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_ARRAY;
	plane.dstArray = to == array ? to->array : NULL;
	plane.srcArray = to == array ? NULL : from->array;
	plane.dstDevice = to == array ? 0 : to->memory;
	plane.srcDevice = to == array ? from->memory : 0;
	plane.dstPitch = plane.srcPitch = row;
	return cuMemcpy2D_v2(&plane);
}

static CUresult give_back(struct thing *thing)
{
	CUresult result = thing->kind == MEMORY    ? cuMemFree_v2(thing->memory)
	                  : thing->kind == MIPMAPS ? cuMipmappedArrayDestroy(thing->mipmaps)
	                                           : cuArrayDestroy(thing->array);

	thing->kind = NOTHING;
	return result;
}

static CUresult load(size_t bytes)
{
	char ptx[256];
	CUmodule module;

	snprintf(ptx, sizeof(ptx),
	         ".version 6.4\n.target sm_50\n.address_size 64\n.visible .global .align 4 .b8 "
	         "large[%zu];\n",
	         bytes);
	return cuModuleLoadData(&module, ptx);
}

static size_t obey(const char *command, char **words)
{
	size_t bytes = 0, total;

	if (strcmp(command, "context") == 0)
		return (size_t)cuCtxCreate_v2(&extra, 0, 0);
	if (strcmp(command, "leave") == 0)
		return (size_t)cuCtxDestroy_v2(extra);
	if (strcmp(command, "info") == 0) {
		CHECK(cuMemGetInfo_v2(&bytes, &total));
		return bytes;
	}
	if (strcmp(command, "module") == 0)
		return (size_t)load(number(words[0]) << 10);
	if (strcmp(command, "array") == 0)
		return (size_t)make_array(named(words[0]), words + 1);
	if (strcmp(command, "mipmaps") == 0)
		return (size_t)make_mipmaps(named(words[0]), words + 1);
	if (strcmp(command, "alloc") == 0)
		return (size_t)make_memory(named(words[0]), words + 1);
	if (strcmp(command, "fill") == 0)
		return fill(named(words[0]), (int)number(words[1]));
	if (strcmp(command, "check") == 0)
		return differing(named(words[0]), (int)number(words[1]));
	if (strcmp(command, "copy") == 0)
		return (size_t)copy(named(words[0]), named(words[1]));
	if (strcmp(command, "free") == 0)
		return (size_t)give_back(named(words[0]));
	fprintf(stderr, "arrays: '%s': unknown\n", command);
	exit(2);
}

int main(void)
{
	char line[1024];

	setvbuf(stdout, NULL, _IOLBF, 0);
	gpu = elastic_start();
	while (fgets(line, sizeof(line), stdin)) {
		char *words[WORDS_MAX + 1] = {NULL};
		size_t count = 0;

		for (char *word = strtok(line, " \n"); word && count < WORDS_MAX;
		     word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count)
			printf("%zu\n", obey(words[0], words + 1));
	}
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu.device));
	return 0;
}
