/* SPDX-License-Identifier: MIT */
/*
 * Pools in several processes: a descriptor names the pool, and data of 64 bytes one allocation of
 * it, which the other process maps as it would one by handle (ipc.c). Only the pool's own process
 * allocates from it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/softgpu/ipc.h"
#include "tests/softgpu/pool.h"

struct ipc_pool {
	uint32_t magic;
	int32_t pid;
	uint32_t id;
	int32_t device; /* of the machine */
};

EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct pool *pool = handle_find(handle, HANDLE_POOL);
	if (!out || !pool || flags != 0 || type == CU_MEM_HANDLE_TYPE_NONE ||
	    pool->properties.handleTypes != type || pool->exporter)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct ipc_pool what = {.magic = IPC_POOL,
	                        .pid = getpid(),
	                        .id = pool->id,
	                        .device = pool->device->machine_index};
	int file = memfd_create("softgpu-pool", MFD_CLOEXEC);
	if (file < 0)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	if (write(file, &what, sizeof(what)) != sizeof(what)) {
		close(file);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*(int *)out = file;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *os_handle,
                                                   CUmemAllocationHandleType type,
                                                   unsigned long long flags)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct ipc_pool what;
	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0 ||
	    pread((int)(intptr_t)os_handle, &what, sizeof(what), 0) != sizeof(what) ||
	    what.magic != IPC_POOL)
		return leave(CUDA_ERROR_INVALID_VALUE);
	int device = device_of_machine(what.device);
	if (device < 0)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	struct pool *pool = pool_new(&devices[device]);
	if (!pool)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	pool->properties.handleTypes = type;
	pool->exporter = what.pid;
	pool->id = what.id;
	*out = (CUmemoryPool)pool;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct range *range = range_find(address);
	if (!out || !range || range->base != address || range->kind != RANGE_POOLED ||
	    !range->pool->properties.handleTypes)
		return leave(CUDA_ERROR_INVALID_VALUE);
	const struct pool_chunk *chunk = range->extent->chunk;
	struct ipc_memory memory;
	result = ipc_describe(chunk->physical, range->base - chunk->base, range->size, &memory);
	if (result == CUDA_SUCCESS)
		memcpy(out, &memory, sizeof(memory));
	return leave(result);
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle,
                                       CUmemPoolPtrExportData *data)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct pool *pool = handle_find(handle, HANDLE_POOL);
	struct ipc_memory memory;
	if (!out || !pool || !data || !pool->exporter)
		return leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(&memory, data, sizeof(memory));
	if (memory.pid != pool->exporter)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct range *range;
	result = ipc_map(&memory, context, &range);
	if (result != CUDA_SUCCESS)
		return leave(result);
	if (range->opened > 1) { /* it is imported already */
		range->opened--;
		return leave(CUDA_ERROR_INVALID_VALUE);
	}
	range->pool = pool;
	pool->used += range->size;
	*out = range->base;
	return leave(CUDA_SUCCESS);
}

struct import_free {
	struct work work;
	uint64_t base;
};

static void release_import(struct work *work)
{
	struct range *range = range_find(((struct import_free *)work)->base);
	if (range && range->kind == RANGE_IMPORTED)
		imported_free(range);
}

CUresult imported_free_on(struct range *range, struct stream *stream)
{
	struct import_free *work = calloc(1, sizeof(*work));
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (range->opened == 0) { /* it is being freed already */
		free(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	range->opened = 0;
	work->base = range->base;
	work->work.release = release_import;
	return stream_submit(stream, &work->work);
}
