/* SPDX-License-Identifier: MIT */
/*
 * Memory of another process, by handle: cuIpcGetMemHandle, cuIpcOpenMemHandle.
 *
 * A handle has the place of the bytes: the process, its file and the offset. A process that opens
 * the handle opens that file through /proc. It holds the memory by its name in the machine's books,
 * so that the bytes stay when the exporter frees them or dies.
 */
#include "core/base/file_status.h"
#include "tests/softgpu/ipc.h"
#include "tests/softgpu/pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct ipc_memory) == sizeof(CUipcMemHandle), "it is what a handle holds");
_Static_assert(sizeof(struct ipc_memory) == sizeof(CUmemPoolPtrExportData), "and such data");

CUresult ipc_describe(struct physical *physical, uint64_t offset, uint64_t size,
                      struct ipc_memory *memory)
{
	struct stat status;
	if (file_status_of(physical->file, &status) != 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (!physical_share(physical))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*memory = (struct ipc_memory){
	    .magic = IPC_MEMORY,
	    .pid = getpid(),
	    .file = physical->file,
	    .device = (int16_t)devices[physical->device].machine_index,
	    .index = (uint16_t)physical->name.index,
	    .generation = physical->name.generation,
	    .inode = status.st_ino,
	    .file_offset = physical->offset,
	    .physical_size = physical->size,
	    .offset = offset,
	    .size = size,
	};
	return CUDA_SUCCESS;
}

/* A description of our own of another process's file; -1 when it is not there any more. */
static int open_file(const struct ipc_memory *memory)
{
	char path[64];
	struct stat status;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", memory->pid, memory->file);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file >= 0 && (file_status_of(file, &status) != 0 || status.st_ino != memory->inode)) {
		close(file);
		return -1;
	}
	return file;
}

int device_of_machine(int machine_index)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].machine_index == machine_index)
			return i;
	return -1;
}

/* The memory as an object of this process: the one it has, or a new one without references. */
static CUresult find_physical(const struct ipc_memory *memory, struct physical **out)
{
	struct shared_name name = {.index = memory->index, .generation = memory->generation};
	int device = device_of_machine(memory->device);
	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*out = physical_named(&name);
	if (*out)
		return CUDA_SUCCESS;
	if (!machine_hold(&name)) /* freed, and nobody else has it */
		return CUDA_ERROR_MAP_FAILED;
	int file = open_file(memory);
	*out = file < 0 ? NULL
	                : physical_adopt(file, memory->file_offset, memory->physical_size, device,
	                                 &name);
	if (*out)
		return CUDA_SUCCESS;
	if (file >= 0)
		close(file);
	machine_unhold(&name);
	return CUDA_ERROR_MAP_FAILED;
}

CUresult ipc_map(const struct ipc_memory *memory, struct context *context, struct range **out)
{
	if (memory->magic != IPC_MEMORY || memory->size > memory->physical_size ||
	    memory->offset > memory->physical_size - memory->size)
		return CUDA_ERROR_INVALID_VALUE;
	/* What the process has anyway it need not open; real drivers refuse it so, too. */
	if (memory->pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	struct physical *physical;
	CUresult result = find_physical(memory, &physical);
	if (result != CUDA_SUCCESS)
		return result;
	struct range *range;
	for (size_t i = 0; (range = range_at(i)); i++) {
		if (range->kind == RANGE_IMPORTED && range->physical == physical &&
		    range->import_offset == memory->offset && range->context == context &&
		    range->opened > 0) {
			range->opened++;
			*out = range;
			return CUDA_SUCCESS;
		}
	}
	/* For the context's device, and for the one that has it. */
	uint64_t base =
	    map_physical(physical, 1U << physical->device | 1U << context->device->index);
	range =
	    base ? range_add(RANGE_IMPORTED, base + memory->offset, memory->size, context) : NULL;
	if (!range) {
		if (base)
			device_unmap(physical, base);
		else
			physical_drop(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->device = physical->device;
	range->physical = physical;
	range->import_offset = memory->offset;
	range->opened = 1;
	*out = range;
	return CUDA_SUCCESS;
}

void imported_free(struct range *range)
{
	struct physical *physical = range->physical;
	uint64_t base = range->base - range->import_offset;
	if (range->pool)
		range->pool->used -= range->size;
	range_remove(range);
	device_unmap(physical, base);
}

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	const struct range *range = range_find(address);
	/* Only plain memory: not what cuMemMap, pools, modules or other processes made. */
	if (!handle || !range || range->base != address || range->kind != RANGE_DEVICE)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct ipc_memory memory;
	uint64_t offset;
	struct physical *physical = device_physical(range, &offset);
	result = ipc_describe(physical, offset, range->size, &memory);
	if (result == CUDA_SUCCESS)
		memcpy(handle, &memory, sizeof(memory));
	return leave(result);
}

static CUresult open_handle(const char *call, CUdeviceptr *out, CUipcMemHandle handle,
                            unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct ipc_memory memory;
	memcpy(&memory, &handle, sizeof(memory));
	if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct range *range;
	result = ipc_map(&memory, context, &range);
	if (result == CUDA_SUCCESS)
		*out = range->base;
	return leave(result);
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(__func__, out, handle, flags);
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(__func__, out, handle, flags);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	for (bool waited = false;; waited = true) {
		struct range *range = range_find(address);
		if (!range || range->base != address || range->kind != RANGE_IMPORTED ||
		    range->pool)
			return leave(CUDA_ERROR_INVALID_VALUE);
		if (range->opened > 1) {
			range->opened--;
			return leave(CUDA_SUCCESS);
		}
		if (!waited) {
			context_drain(range->context);
			continue;
		}
		imported_free(range);
		return leave(context->error);
	}
}
