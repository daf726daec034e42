/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 of a few calls that is not linked to itself, unlike NVIDIA's. The loader looks up
 * its own functions that it calls by name. It counts its calls. Some calls are made of others:
 *
 *   cuMemAllocPitch_v2 = cuMemAlloc_v2, cuMemFreeAsync = cuMemFree_v2,
 *   cuLaunchGrid = cuLaunchKernel, cuCtxCreate_v4 = cuCtxCreate_v2, cuModuleLoad = cuModuleLoadData
 *
 * TINY_REACH=name: it finds its own functions as a program does, in the library of the driver's
 * name. TINY_CONSTRUCTOR=1: it calls itself, by that way, when it is loaded. TINY_INJECTION=FILE:
 * cuInit loads that library and calls its InitializeInjection(), as CUDA does for
 * CUDA_INJECTION64_PATH; its InsideCall(), where it has one, is called in the midst of every call
 * that counts. cuTinyCount(name) is a function that no table knows: cuGetProcAddress finds it, and
 * cuTinyNews, and from CUDA 14 on a cuMemAlloc_v3.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef uint64_t pointer;
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201 };

static struct {
	const char *name;
	int n;
} counts[] = {{"init", 0},   {"alloc", 0},   {"free", 0},        {"launch", 0},
              {"module", 0}, {"context", 0}, {"constructor", -1}};

static int *count_of(const char *name)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		if (strcmp(counts[i].name, name) == 0)
			return &counts[i].n;
	}
	return NULL;
}

static void *by_name(const char *symbol)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *found = library ? dlsym(library, symbol) : NULL;

	if (!found)
		abort();
	return found;
}

#define SELF(symbol) (getenv("TINY_REACH") ? (__typeof__(&(symbol)))by_name(#symbol) : (symbol))

static void (*inside_call)(void);

static void count(const char *name)
{
	++*count_of(name);
	if (inside_call)
		inside_call();
}

result cuInit(unsigned int flags);
result cuDriverGetVersion(int *version);
result cuDeviceGetCount(int *n);
result cuDeviceGet(int *device, int ordinal);
result cuDeviceGetName(char *name, int size, int device);
result cuDeviceGetUuid(char *uuid, int device);
result cuDeviceTotalMem_v2(size_t *bytes, int device);
result cuCtxGetCurrent(void **context);
result cuCtxGetDevice(int *device);
result cuCtxCreate_v2(void **context, unsigned int flags, int device);
result cuCtxCreate_v4(void **context, void *parameters, unsigned int flags, int device);
result cuMemAlloc_v2(pointer *p, size_t size);
result cuMemAllocPitch_v2(pointer *p, size_t *pitch, size_t width, size_t height,
                          unsigned int element);
result cuMemFree_v2(pointer p);
result cuMemFreeAsync(pointer p, void *stream);
result cuStreamIsCapturing(void *stream, int *status);
result cuModuleLoadData(void **module, const void *image);
result cuModuleLoad(void **module, const char *file);
result cuLaunchKernel(void *f, unsigned int x, unsigned int y, unsigned int z, unsigned int bx,
                      unsigned int by, unsigned int bz, unsigned int shared, void *stream,
                      void **parameters, void **extra);
result cuLaunchGrid(void *f, int width, int height);
result cuMemAlloc_v3(pointer *p, size_t size, unsigned int flags);
result cuTinyCount(const char *name);
result cuTinyNews(void);
result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                           int *status);

static int is_initialized;
static void *current;
static pointer next_address = (pointer)1 << 24;

result cuInit(unsigned int flags)
{
	const char *injection = getenv("TINY_INJECTION");
	void *library;
	int (*initialize)(void);

	(void)flags;
	++*count_of("init");
	if (injection && !is_initialized) {
		is_initialized = 1;
		library = dlopen(injection, RTLD_NOW);
		if (!library || !(*(void **)&initialize = dlsym(library, "InitializeInjection")) ||
		    !initialize())
			abort();
		*(void **)&inside_call = dlsym(library, "InsideCall");
	}
	is_initialized = 1;
	return SUCCESS;
}

result cuDriverGetVersion(int *version)
{
	*version = 14000;
	return SUCCESS;
}

result cuDeviceGetCount(int *n)
{
	*n = 1;
	return is_initialized ? SUCCESS : NOT_INITIALIZED;
}

result cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return SUCCESS;
}

result cuDeviceGetName(char *name, int size, int device)
{
	(void)device;
	strncpy(name, "tiny", (size_t)size);
	return SUCCESS;
}

result cuDeviceGetUuid(char *uuid, int device)
{
	memset(uuid, 7 + device, 16);
	return SUCCESS;
}

result cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = (size_t)1 << 30;
	return SUCCESS;
}

result cuCtxGetCurrent(void **context)
{
	*context = current;
	return SUCCESS;
}

result cuCtxGetDevice(int *device)
{
	*device = 0;
	return current ? SUCCESS : INVALID_CONTEXT;
}

result cuCtxCreate_v2(void **context, unsigned int flags, int device)
{
	(void)flags;
	(void)device;
	count("context");
	*context = current = &current;
	return SUCCESS;
}

result cuCtxCreate_v4(void **context, void *parameters, unsigned int flags, int device)
{
	(void)parameters;
	return SELF(cuCtxCreate_v2)(context, flags, device);
}

result cuMemAlloc_v2(pointer *p, size_t size)
{
	count("alloc");
	*p = next_address;
	next_address += (size + 511) / 512 * 512;
	return SUCCESS;
}

result cuMemAllocPitch_v2(pointer *p, size_t *pitch, size_t width, size_t height,
                          unsigned int element)
{
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return SELF(cuMemAlloc_v2)(p, *pitch * height);
}

result cuMemFree_v2(pointer p)
{
	count("free");
	return p ? SUCCESS : INVALID_VALUE;
}

result cuStreamIsCapturing(void *stream, int *status)
{
	(void)stream;
	*status = 0;
	return SUCCESS;
}

result cuMemFreeAsync(pointer p, void *stream)
{
	(void)stream;
	return SELF(cuMemFree_v2)(p);
}

result cuModuleLoadData(void **module, const void *image)
{
	static char modules[16];

	(void)image;
	*module = &modules[*count_of("module")];
	count("module");
	return SUCCESS;
}

result cuModuleLoad(void **module, const char *file)
{
	return SELF(cuModuleLoadData)(module, file);
}

result cuLaunchKernel(void *f, unsigned int x, unsigned int y, unsigned int z, unsigned int bx,
                      unsigned int by, unsigned int bz, unsigned int shared, void *stream,
                      void **parameters, void **extra)
{
	count("launch");
	/* What comes on the stack comes whole, whatever stands between. */
	return x == y && y == z && bx == by && by == bz && !stream && !parameters && !extra &&
	               !shared && f
	           ? SUCCESS
	           : INVALID_VALUE;
}

result cuLaunchGrid(void *f, int width, int height)
{
	return SELF(cuLaunchKernel)(f, (unsigned int)width, (unsigned int)height, 1, 32, 32, 32, 0,
	                            NULL, NULL, NULL);
}

result cuMemAlloc_v3(pointer *p, size_t size, unsigned int flags)
{
	*p = next_address;
	next_address += size;
	return flags ? INVALID_VALUE : SUCCESS;
}

result cuTinyCount(const char *name)
{
	return count_of(name) ? *count_of(name) : -1;
}

result cuTinyNews(void)
{
	return 4711;
}

result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                           int *status)
{
	Dl_info own;
	void *library;

	(void)flags;
	if (!dladdr(&counts, &own) || !(library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD)))
		abort();
	if (strcmp(name, "cuMemAlloc") == 0)
		name = version < 14000 ? "cuMemAlloc_v2" : "cuMemAlloc_v3";
	*function = dlsym(library, name);
	dlclose(library);
	if (status)
		*status = *function ? 0 : 1;
	return SUCCESS;
}

__attribute__((constructor)) static void call_back(void)
{
	int (*init)(unsigned int), (*allocate)(pointer *, size_t);
	pointer p;

	if (!getenv("TINY_CONSTRUCTOR"))
		return;
	*(void **)&init = by_name("cuInit");
	*(void **)&allocate = by_name("cuMemAlloc_v2");
	*count_of("constructor") = init(0) * 1000 + allocate(&p, 4096);
}
