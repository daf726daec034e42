/* SPDX-License-Identifier: MIT */
/*
 * Device memory that cannot be on the host: arrays, the calls from before CUDA 3.2, with addresses
 * of 32 bits, and limits of a context, which take memory unasked. The shim's hooks over stand-ins
 * for a device that pads arrays to tiles of 64 KiB.
 *
 * - what is charged is, to the byte, what the device gave, and comes back;
 * - beyond the limit the program gets out of memory, the device keeps nothing, and the next request
 *   is served;
 * - when the driver refuses, or there is nothing to take, nothing is charged;
 * - what another tenant takes while a module is loaded is charged no further than the image could
 *   have held.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/job/job.h"
#include "core/memory/uses/measured.h"
#include "shim/attach.h"
#include "shim/track.h"

#define KIB   ((size_t)1 << 10)
#define MIB   ((size_t)1 << 20)
#define TILE  (64 * KIB)
#define LIMIT (16 * MIB)
#define TOTAL (8192 * MIB)

static int failures;
#define EXPECT(what, wanted, got)                                                     \
	do {                                                                          \
		unsigned long long wanted_ = (wanted), got_ = (got);                  \
		if (wanted_ != got_) {                                                \
			printf("%s: expected %llu, got %llu\n", what, wanted_, got_); \
			failures++;                                                   \
		}                                                                     \
	} while (0)

#define CALL(symbol, ...) (((__typeof__(&(symbol)))shim_target[ENTRY_##symbol])(__VA_ARGS__))

static uint64_t charged(void)
{
	return device_charged(&job_devices()->device[0], SEGMENT_ON_DEVICE);
}

/* --- the driver's part --- */

static size_t in_use;
static CUresult answer; /* to the next request */

/* Handles and addresses are numbers of what was made. */
enum { MADE_MAX = 64 };
static size_t made[MADE_MAX];
static unsigned int made_count;

static CUresult make(size_t bytes, unsigned int *number)
{
	if (answer != CUDA_SUCCESS)
		return answer;
	if (bytes > TOTAL - in_use || made_count + 1 == MADE_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	in_use += bytes;
	made[++made_count] = bytes + 1; /* 0: gone */
	*number = made_count;
	return CUDA_SUCCESS;
}

static CUresult unmake(unsigned int number)
{
	if (!number || number > made_count || !made[number])
		return CUDA_ERROR_INVALID_HANDLE;
	in_use -= made[number] - 1;
	made[number] = 0;
	return CUDA_SUCCESS;
}

static size_t tiles(size_t bytes)
{
	return (bytes + TILE - 1) / TILE * TILE;
}

/* Four bytes to an element, as all arrays here have. */
static CUresult make_array(void *out, size_t bytes)
{
	unsigned int number;
	CUresult result = make(tiles(bytes), &number);

	if (result == CUDA_SUCCESS)
		*(uintptr_t *)out = number;
	return result;
}

static size_t solid(size_t width, size_t height, size_t depth, unsigned int flags)
{
	if (flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	return 4 * width * (height ? height : 1) * (depth ? depth : 1);
}

static CUresult array_1(CUarray *out, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	return make_array(out, solid(d->Width, d->Height, 0, 0));
}

static CUresult array_2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
	return make_array(out, solid(d->Width, d->Height, 0, 0));
}

static CUresult array_3d_1(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	return make_array(out, solid(d->Width, d->Height, d->Depth, d->Flags));
}

static CUresult array_3d_2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return make_array(out, solid(d->Width, d->Height, d->Depth, d->Flags));
}

static CUresult mipmapped(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                          unsigned int levels)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < levels; i++)
		bytes += tiles(solid(d->Width >> i, d->Height >> i, d->Depth >> i, d->Flags));
	return make_array(out, bytes);
}

static CUresult destroy_array(CUarray array)
{
	return unmake((unsigned int)(uintptr_t)array);
}

static CUresult destroy_mipmapped(CUmipmappedArray array)
{
	return unmake((unsigned int)(uintptr_t)array);
}

static CUresult alloc(CUdeviceptr_v1 *out, unsigned int size)
{
	unsigned int number;
	CUresult result = make((size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB), &number);

	if (result == CUDA_SUCCESS)
		*out = number << 20;
	return result;
}

static CUresult alloc_pitch(CUdeviceptr_v1 *out, unsigned int *pitch, unsigned int width,
                            unsigned int height, unsigned int element)
{
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return alloc(out, *pitch * height);
}

static CUresult set_limit(CUlimit limit, size_t value)
{
	static size_t has;

	(void)limit;
	if (answer != CUDA_SUCCESS)
		return answer;
	in_use = in_use - has + value;
	has = value;
	return CUDA_SUCCESS;
}

/* Modules and libraries take what they hold, and another tenant something at the same time. */
static size_t holds, foreign;

static CUresult load(CUmodule *out, const void *image)
{
	(void)image;
	in_use += holds + foreign;
	*out = (CUmodule)0xabc0;
	return CUDA_SUCCESS;
}

static CUresult unload(CUmodule module)
{
	(void)module;
	in_use -= holds;
	return CUDA_SUCCESS;
}

static CUresult load_library(CUlibrary *out, const void *code, CUjit_option *options, void **values,
                             unsigned int count, CUlibraryOption *library_options,
                             void **library_values, unsigned int library_count)
{
	(void)code;
	(void)options;
	(void)values;
	(void)count;
	(void)library_options;
	(void)library_values;
	(void)library_count;
	*out = (CUlibrary)0xdef0;
	return CUDA_SUCCESS;
}

static CUresult get_module(CUmodule *out, CUlibrary library)
{
	(void)library;
	return load(out, NULL);
}

static CUresult unload_library(CUlibrary library)
{
	(void)library;
	return unload(NULL);
}

static CUresult info(size_t *free_bytes, size_t *total)
{
	*free_bytes = TOTAL - in_use;
	*total = TOTAL;
	return CUDA_SUCCESS;
}

static CUresult total_memory(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = TOTAL;
	return CUDA_SUCCESS;
}

static CUresult current_context(CUcontext *context)
{
	*context = (CUcontext)0xc0de;
	return CUDA_SUCCESS;
}

static CUresult device_zero(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult one(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

static CUresult no_pool(CUmemoryPool *pool, CUdevice device)
{
	(void)pool;
	(void)device;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void stand_in(void)
{
	driver.cuCtxGetCurrent = current_context;
	driver.cuCtxGetDevice = device_zero;
	driver.cuDeviceGetCount = one;
	driver.cuDeviceTotalMem_v2 = total_memory;
	driver.cuDeviceGetMemPool = no_pool;
	driver.cuMemGetInfo_v2 = info;
	shim_real[ENTRY_cuCtxGetCurrent] = (void *)current_context;
	shim_real[ENTRY_cuArrayCreate] = (void *)array_1;
	shim_real[ENTRY_cuArrayCreate_v2] = (void *)array_2;
	shim_real[ENTRY_cuArray3DCreate] = (void *)array_3d_1;
	shim_real[ENTRY_cuArray3DCreate_v2] = (void *)array_3d_2;
	shim_real[ENTRY_cuMipmappedArrayCreate] = (void *)mipmapped;
	shim_real[ENTRY_cuArrayDestroy] = (void *)destroy_array;
	shim_real[ENTRY_cuMipmappedArrayDestroy] = (void *)destroy_mipmapped;
	shim_real[ENTRY_cuMemAlloc] = (void *)alloc;
	shim_real[ENTRY_cuMemAllocPitch] = (void *)alloc_pitch;
	shim_real[ENTRY_cuCtxSetLimit] = (void *)set_limit;
	shim_real[ENTRY_cuModuleLoadData] = (void *)load;
	shim_real[ENTRY_cuModuleUnload] = (void *)unload;
	shim_real[ENTRY_cuLibraryLoadData] = (void *)load_library;
	shim_real[ENTRY_cuLibraryGetModule] = (void *)get_module;
	shim_real[ENTRY_cuLibraryUnload] = (void *)unload_library;
}

/*
 * --- each form, of about so many bytes; int, as analysers take a CUresult for what may point ---
 */

union object {
	CUarray array;
	CUmipmappedArray mipmapped;
};

static CUDA_ARRAY3D_DESCRIPTOR cube(size_t bytes, unsigned int flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){.Width = bytes / 4 / 8 / 4,
	                                 .Height = 8,
	                                 .Depth = 4,
	                                 .Format = CU_AD_FORMAT_FLOAT,
	                                 .NumChannels = 1,
	                                 .Flags = flags};
}

static int make_array_2(union object *out, size_t bytes)
{
	const CUDA_ARRAY_DESCRIPTOR d = {bytes / 4 / 100, 100, CU_AD_FORMAT_UNSIGNED_INT8, 4};

	return CALL(cuArrayCreate_v2, &out->array, &d);
}

static int make_array_3d_2(union object *out, size_t bytes)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = cube(bytes, 0);

	return CALL(cuArray3DCreate_v2, &out->array, &d);
}

static int make_mipmapped(union object *out, size_t bytes)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = cube(bytes / 8 * 7, 0);

	return CALL(cuMipmappedArrayCreate, &out->mipmapped, &d, 3);
}

static int free_array(union object object)
{
	return CALL(cuArrayDestroy, object.array);
}

static int free_mipmapped(union object object)
{
	return CALL(cuMipmappedArrayDestroy, object.mipmapped);
}

static const struct form {
	const char *name;
	int (*make)(union object *out, size_t bytes);
	int (*free)(union object object);
} forms[] = {
    {"cuArrayCreate_v2", make_array_2, free_array},
    {"cuArray3DCreate_v2", make_array_3d_2, free_array},
    {"cuMipmappedArrayCreate", make_mipmapped, free_mipmapped},
};

static void check_form(const struct form *form)
{
	union object object = {0}, beyond = {0}, again = {0};

	EXPECT(form->name, CUDA_SUCCESS, form->make(&object, 5 * MIB));
	if (in_use < 4 * MIB || in_use > 8 * MIB)
		EXPECT("about 5 MiB", 5 * MIB, in_use);
	EXPECT(form->name, in_use, charged());
	EXPECT(form->name, CUDA_ERROR_OUT_OF_MEMORY, form->make(&beyond, 13 * MIB));
	EXPECT(form->name, in_use, charged());
	answer = CUDA_ERROR_INVALID_VALUE;
	EXPECT(form->name, CUDA_ERROR_INVALID_VALUE, form->make(&beyond, 3 * MIB));
	answer = CUDA_SUCCESS;
	EXPECT(form->name, in_use, charged());
	EXPECT(form->name, CUDA_SUCCESS, form->make(&again, 3 * MIB));
	EXPECT(form->name, in_use, charged());
	EXPECT(form->name, CUDA_SUCCESS, form->free(again));
	EXPECT(form->name, in_use, charged());
	EXPECT(form->name, CUDA_SUCCESS, form->free(object));
	EXPECT(form->name, 0, in_use);
	EXPECT(form->name, 0, charged());
	printf("%s\n", form->name);
}

/* The forms of 32 bits: the driver is not asked. */
static void check_refused(void)
{
	const CUDA_ARRAY_DESCRIPTOR_v1 plane = {(unsigned int)MIB, 1, CU_AD_FORMAT_HALF, 2};
	const CUDA_ARRAY3D_DESCRIPTOR_v1 solid = {
	    (unsigned int)MIB, 1, 6, CU_AD_FORMAT_SIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED};
	CUdeviceptr_v1 address = 0;
	unsigned int pitch = 0;
	CUarray array = NULL;

	EXPECT("cuMemAlloc", CUDA_ERROR_NOT_SUPPORTED, CALL(cuMemAlloc, &address, 1024));
	EXPECT("cuMemAllocPitch", CUDA_ERROR_NOT_SUPPORTED,
	       CALL(cuMemAllocPitch, &address, &pitch, 1000, 1024, 4));
	EXPECT("cuArrayCreate", CUDA_ERROR_NOT_SUPPORTED, CALL(cuArrayCreate, &array, &plane));
	EXPECT("cuArray3DCreate", CUDA_ERROR_NOT_SUPPORTED, CALL(cuArray3DCreate, &array, &solid));
	EXPECT("refused", 0, in_use);
	EXPECT("refused", 0, charged());
	EXPECT("refused", true, !address && !pitch && !array);
}

static void check_without_memory(unsigned int flags)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = cube(32 * MIB, flags);
	union object object = {0};

	EXPECT("more than the limit", CUDA_SUCCESS, CALL(cuArray3DCreate_v2, &object.array, &d));
	EXPECT("without memory", 0, charged());
	EXPECT("destroyed", CUDA_SUCCESS, free_array(object));
	EXPECT("mipmapped", CUDA_SUCCESS, CALL(cuMipmappedArrayCreate, &object.mipmapped, &d, 2));
	EXPECT("without memory", 0, charged());
	EXPECT("destroyed", CUDA_SUCCESS, free_mipmapped(object));
}

static void check_module(const char *image, size_t size, size_t of_others, size_t least,
                         size_t most)
{
	CUlibrary library;
	CUmodule module;

	holds = size;
	foreign = of_others;
	for (int way = 0; way < 2; way++) {
		if (way == 0) {
			EXPECT("module", CUDA_SUCCESS, CALL(cuModuleLoadData, &module, image));
		} else {
			EXPECT(
			    "library", CUDA_SUCCESS,
			    CALL(cuLibraryLoadData, &library, image, NULL, NULL, 0, NULL, NULL, 0));
			EXPECT("a library takes nothing yet", 0, charged());
			EXPECT("its module", CUDA_SUCCESS,
			       CALL(cuLibraryGetModule, &module, library));
		}
		if (charged() < least || charged() > most)
			EXPECT("charged too much or too little", least, charged());
		if (way == 0)
			EXPECT("unloaded", CUDA_SUCCESS, CALL(cuModuleUnload, module));
		else
			EXPECT("unloaded", CUDA_SUCCESS, CALL(cuLibraryUnload, library));
		EXPECT("unloaded", 0, charged());
		in_use = 0;
	}
}

static void check_modules(void)
{
	static const char small[] = ".version 6.4\n.visible .entry f()\n{\nret;\n}\n";
	static const char large[] = ".version 6.4\n.global .b8 table[1073741824];\n";

	check_module(small, 3 * MIB, 0, 3 * MIB, 3 * MIB);
	check_module(large, 1024 * MIB, 0, 1024 * MIB, 1024 * MIB);
	/* Whose gigabytes these are, nobody can tell; how many may be ours, the image can. */
	check_module(small, 3 * MIB, 4096 * MIB, 3 * MIB, 65 * MIB);
	check_module(large, 1024 * MIB, 4096 * MIB, 1024 * MIB, 1089 * MIB);
}

static void check_limit(void)
{
	EXPECT("cuCtxSetLimit", CUDA_SUCCESS,
	       CALL(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, 6 * MIB));
	EXPECT("a heap", 6 * MIB, charged());
	EXPECT("cuCtxSetLimit", CUDA_SUCCESS,
	       CALL(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
	EXPECT("a larger one", 8 * MIB, charged());
	answer = CUDA_ERROR_INVALID_VALUE;
	EXPECT("refused", CUDA_ERROR_INVALID_VALUE,
	       CALL(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, 9 * MIB));
	answer = CUDA_SUCCESS;
	EXPECT("refused", 8 * MIB, charged());
}

int main(void)
{
	const char *build = getenv("BUILD");
	char name[256], path[PATH_MAX];

	snprintf(name, sizeof(name), "%s/tests/unit/recorder.so", build ? build : "build");
	if (!realpath(name, path)) {
		perror(name);
		return EXIT_FAILURE;
	}
	setenv("SPILLWAY_DRIVER", path, 1);
	setenv("SPILLWAY_JOB", "unmovable", 1);
	setenv("SPILLWAY_MEMORY", "16MiB", 1);
	shim_attach(NULL, &shim_trampolines);
	shim_inside[1].size = 0; /* this program's code and the shim's are one */
	stand_in();
	if (CALL(cuInit, 0) != CUDA_SUCCESS || !job_is_active()) {
		printf("the job did not begin\n");
		return EXIT_FAILURE;
	}
	measured_every_ns = 0; /* what is measured here comes one upon the other */
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		check_form(&forms[i]);
	check_refused();
	check_without_memory(CUDA_ARRAY3D_SPARSE);
	check_without_memory(CUDA_ARRAY3D_DEFERRED_MAPPING);
	check_modules();
	check_limit(); /* stays: a limit has no end but its context's */
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
