/* SPDX-License-Identifier: MIT */
/*
 * Memory of cuMemCreate as a file descriptor that another process can make memory of again.
 *
 * The descriptor is of the memory's own file; a label behind the bytes describes it. It outlives
 * its exporter. A process that imports it when no process has the memory any more must find room
 * for it anew.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "tests/softgpu/ipc.h"

#define LABEL_MAGIC "softgpu memory 1"

struct label {
	char magic[16];
	uint64_t size;
	int32_t device; /* of the machine */
	struct shared_name name;
	CUmemAllocationProp properties;
};

static int open_again(int file)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return open(path, O_RDWR | O_CLOEXEC);
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type,
                                             unsigned long long flags)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct physical *physical = physical_of(handle);
	if (!out || !physical || flags != 0 || type == CU_MEM_HANDLE_TYPE_NONE ||
	    physical->properties.requestedHandleTypes != type)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!physical_share(physical))
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	struct label label = {.magic = LABEL_MAGIC,
	                      .size = physical->size,
	                      .device = devices[physical->device].machine_index,
	                      .name = physical->name,
	                      .properties = physical->properties};
	int file = open_again(physical->file);
	if (file < 0)
		return leave(CUDA_ERROR_OPERATING_SYSTEM);
	if (pwrite(file, &label, sizeof(label), (off_t)physical->size) != sizeof(label) ||
	    flock(file, LOCK_SH | LOCK_NB) != 0) {
		close(file);
		return leave(CUDA_ERROR_OPERATING_SYSTEM);
	}
	*(int *)out = file;
	return leave(CUDA_SUCCESS);
}

static bool read_label(int file, struct label *label)
{
	struct stat status;
	if (file_status_of(file, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	/* It begins the last page of the file. */
	off_t at = status.st_size - 4096;
	return at > 0 && pread(file, label, sizeof(*label), at) == sizeof(*label) &&
	       memcmp(label->magic, LABEL_MAGIC, sizeof(label->magic)) == 0 &&
	       label->size == (uint64_t)at;
}

/* Holds the memory for this process, anew where nobody has it any more. */
static CUresult hold(int file, struct label *label)
{
	if (machine_hold(&label->name))
		return CUDA_SUCCESS;
	if (!machine_take(label->device, label->size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (machine_share(label->device, label->size, &label->name) &&
	    pwrite(file, label, sizeof(*label), (off_t)label->size) == sizeof(*label))
		return CUDA_SUCCESS;
	machine_give(label->device, label->size);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* `file` is a description of our own; it belongs to the memory afterwards. */
static CUresult import(int file, struct physical **out)
{
	struct label label;
	if (!read_label(file, &label))
		return CUDA_ERROR_INVALID_VALUE;
	int device = device_of_machine(label.device);
	if (device < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*out = physical_named(&label.name);
	if (*out) {
		close(file);
		return CUDA_SUCCESS;
	}
	CUresult result = hold(file, &label);
	if (result != CUDA_SUCCESS)
		return result;
	*out = physical_adopt(file, 0, label.size, device, &label.name);
	if (!*out) {
		machine_unhold(&label.name);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	(*out)->properties = label.properties;
	(*out)->properties.location.id = device;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                               CUmemAllocationHandleType type)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !device_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	int file = open_again((int)(intptr_t)os_handle);
	if (file < 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	/* Who only imports never makes memory, which is when closed descriptors are seen else. */
	physical_settle();
	struct physical *physical;
	/* One import at a time: two must not both find the memory gone. */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	fcntl(file, F_OFD_SETLKW, &lock);
	result = import(file, &physical);
	lock.l_type = F_UNLCK;
	if (result != CUDA_SUCCESS) {
		close(file);
		return leave(result);
	}
	fcntl(physical->file, F_OFD_SETLK, &lock);
	physical->references++;
	physical->exposed = true;
	*out = (CUmemGenericAllocationHandle)physical;
	return leave(CUDA_SUCCESS);
}
