/* SPDX-License-Identifier: MIT */
/*
 * The objects that the program's own start-up code registers: fat binaries, their kernels and
 * variables. Code is loaded when something of it is first used. Names and hosts' addresses are the
 * program's, and live until it unregisters the binary. One lock; the driver is called under it.
 */
#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "tests/softgpu/cudart/cudart.h"

enum kind { KERNEL, VARIABLE, MANAGED };

struct entity {
	enum kind kind;
	const void *host; /* the stub, the shadow variable, or the pointer to managed memory */
	const char *name;
	struct binary *binary;
	CUkernel kernel; /* once it was used */
	struct entity *next;
	UT_hash_handle hh;
};

struct binary {
	const void *image;
	CUlibrary library;
	struct entity *entities;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entity *entities;

void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *stub, const char *name,
                            int thread_limit, struct uint3 *tid, struct uint3 *bid,
                            struct dim3 *block, struct dim3 *grid, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                              size_t size, int constant, int global);
char __cudaInitModule(void **handle);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);

EXPORT void **__cudaRegisterFatBinary(void *image)
{
	struct binary *binary = calloc(1, sizeof(*binary));
	if (binary)
		binary->image = image;
	return (void **)binary;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle; /* nothing waits for it */
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	struct binary *binary = (struct binary *)handle;
	if (!binary)
		return;
	pthread_mutex_lock(&lock);
	struct entity *entity, *next;
	LL_FOREACH_SAFE(binary->entities, entity, next)
	{
		HASH_DEL(entities, entity); /* NOLINT: each is in the table */
		free(entity);
	}
	if (binary->library)
		driver.cuLibraryUnload(binary->library);
	pthread_mutex_unlock(&lock);
	free(binary);
}

static struct entity *find(const void *host)
{
	struct entity *entity;
	HASH_FIND_PTR(entities, &host, entity);
	return entity;
}

static void add(void **handle, enum kind kind, const void *host, const char *name)
{
	struct binary *binary = (struct binary *)handle;
	struct entity *entity = binary ? calloc(1, sizeof(*entity)) : NULL;
	if (!entity)
		return;
	*entity = (struct entity){.kind = kind, .host = host, .name = name, .binary = binary};
	pthread_mutex_lock(&lock);
	/*
	 * The same inline function or template may come from several objects: the first one counts.
	 */
	if (!find(host))
		HASH_ADD_PTR(entities, host, entity);
	if (entity->hh.tbl) {
		LL_PREPEND(binary->entities, entity);
	} else {
		free(entity);
	}
	pthread_mutex_unlock(&lock);
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *stub, const char *name,
                                   int thread_limit, struct uint3 *tid, struct uint3 *bid,
                                   struct dim3 *block, struct dim3 *grid, int *warp_size)
{
	(void)stub, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid;
	(void)warp_size;
	add(handle, KERNEL, host, name);
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                              size_t size, int constant, int global)
{
	(void)device, (void)ext, (void)size, (void)constant, (void)global;
	add(handle, VARIABLE, host, name);
}

EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                     int ext, size_t size, int constant, int global)
{
	(void)device, (void)ext, (void)size, (void)constant, (void)global;
	add(handle, MANAGED, host, name);
}

/* Loads the code and tells the program where its managed variables are. */
static int load(struct binary *binary)
{
	if (binary->library)
		return cudaSuccess;
	CUlibrary library;
	int error =
	    (int)driver.cuLibraryLoadData(&library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
	if (error != cudaSuccess)
		return error;
	struct entity *entity;
	LL_FOREACH (binary->entities, entity) {
		CUdeviceptr address;
		size_t size;
		if (entity->kind != MANAGED)
			continue;
		error = (int)driver.cuLibraryGetManaged(&address, &size, library, entity->name);
		if (error != cudaSuccess) {
			driver.cuLibraryUnload(library);
			return error;
		}
		*(void **)entity->host = (void *)address;
	}
	binary->library = library;
	return cudaSuccess;
}

EXPORT char __cudaInitModule(void **handle)
{
	struct binary *binary = (struct binary *)handle;
	int error = enter();
	if (error == cudaSuccess) {
		pthread_mutex_lock(&lock);
		error = binary ? load(binary) : cudaErrorInvalidValue;
		pthread_mutex_unlock(&lock);
	}
	return finish(error) == cudaSuccess;
}

int kernel_of(const void *host, CUkernel *kernel)
{
	int error = enter();
	if (error != cudaSuccess)
		return error;
	pthread_mutex_lock(&lock);
	struct entity *entity = find(host);
	error = entity && entity->kind == KERNEL ? load(entity->binary)
	                                         : cudaErrorInvalidDeviceFunction;
	if (error == cudaSuccess && !entity->kernel)
		error = (int)driver.cuLibraryGetKernel(&entity->kernel, entity->binary->library,
		                                       entity->name);
	if (error == cudaSuccess)
		*kernel = entity->kernel;
	pthread_mutex_unlock(&lock);
	return error;
}

/* A managed variable's name means the memory itself, in host code too. */
static struct entity *find_variable(const void *host)
{
	struct entity *entity = find(host), *next;
	if (entity)
		return entity;
	HASH_ITER (hh, entities, entity, next) {
		if (entity->kind == MANAGED && *(void **)entity->host == host)
			return entity;
	}
	return NULL;
}

int variable_of(const void *host, CUdeviceptr *address, size_t *size)
{
	int error = enter();
	if (error != cudaSuccess)
		return error;
	pthread_mutex_lock(&lock);
	struct entity *entity = find_variable(host);
	error = entity && entity->kind != KERNEL ? load(entity->binary) : cudaErrorInvalidSymbol;
	if (error == cudaSuccess)
		error = (int)(entity->kind == MANAGED ? driver.cuLibraryGetManaged
		                                      : driver.cuLibraryGetGlobal)(
		    address, size, entity->binary->library, entity->name);
	pthread_mutex_unlock(&lock);
	return error;
}

EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	return finish(kernel_of(host, (CUkernel *)kernel));
}

EXPORT cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	return finish(kernel ? kernel_of(host, (CUkernel *)kernel) : (int)cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *host)
{
	CUkernel kernel;
	int error = kernel_of(host, &kernel);
	if (error == cudaSuccess)
		error = (int)driver.cuKernelGetFunction((CUfunction *)function, kernel);
	return finish(error);
}

EXPORT cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
	size_t size;
	if (!address)
		return finish(cudaErrorInvalidValue);
	return finish(variable_of(symbol, (CUdeviceptr *)address, &size));
}

EXPORT cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUdeviceptr address;
	if (!size)
		return finish(cudaErrorInvalidValue);
	return finish(variable_of(symbol, &address, size));
}
