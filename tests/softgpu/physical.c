/* SPDX-License-Identifier: MIT */
/*
 * Bytes that exist: ranges of one anonymous file of this process, or, where other processes may be
 * given them by descriptor, of a file of their own. Offsets are never used twice; freed bytes are
 * punched out of the file, so that the machine gets its memory back.
 *
 * A descriptor given away keeps the memory held, as the driver's do. It is a description of its own
 * with a shared lock (flock). The lock shows whether any copy of it is still open, here or in
 * another process.
 */
#include "tests/softgpu/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_SIZE (1ULL << 46) /* sparse: more than a process can ever allocate */

#define LABEL_SIZE 4096 /* behind the bytes of an exportable file: see shareable.c */

static int common_file = -1;
static uint64_t next_offset;
static struct physical *all; /* those that are shared */

bool physical_open(void)
{
	common_file = memfd_create("softgpu", MFD_CLOEXEC);
	return common_file >= 0 && ftruncate(common_file, (off_t)FILE_SIZE) == 0;
}

/*
 * Takes the bytes off the machine's books and makes the object; where they lie is up to the caller.
 */
static CUresult create(int device, uint64_t size, struct physical **out)
{
	physical_settle();
	struct physical *physical = calloc(1, sizeof(*physical));
	if (!physical || !handle_add(&physical->handle, HANDLE_PHYSICAL)) {
		free(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (device >= 0 && !machine_take(devices[device].machine_index, size)) {
		handle_remove(&physical->handle);
		free(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (device < 0)
		machine_count_host((int64_t)size);
	physical->device = device;
	physical->size = size;
	*out = physical;
	return CUDA_SUCCESS;
}

CUresult physical_create(int device, uint64_t size, struct physical **out)
{
	if (size > FILE_SIZE - next_offset)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = create(device, size, out);
	if (result != CUDA_SUCCESS)
		return result;
	(*out)->file = common_file;
	(*out)->offset = next_offset;
	next_offset += size;
	return CUDA_SUCCESS;
}

CUresult physical_create_exportable(int device, uint64_t size, struct physical **out)
{
	int file = memfd_create("softgpu-exportable", MFD_CLOEXEC);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	if (file >= 0 && size <= FILE_SIZE && ftruncate(file, (off_t)(size + LABEL_SIZE)) == 0)
		result = create(device, size, out);
	if (result != CUDA_SUCCESS) {
		if (file >= 0)
			close(file);
		return result;
	}
	(*out)->file = file;
	(*out)->own_file = true;
	return CUDA_SUCCESS;
}

/* Returns whether a descriptor of it that was given away is open somewhere. */
static bool is_in_flight(const struct physical *physical)
{
	if (!physical->own_file || flock(physical->file, LOCK_EX | LOCK_NB) != 0)
		return physical->own_file;
	flock(physical->file, LOCK_UN);
	return false;
}

static void give_back(struct physical *physical)
{
	if (physical->shared) {
		bool last = machine_unhold(&physical->name);
		LL_DELETE(all, physical);
		if (!last && !physical->own_file)
			say("memory was freed while another process has it open");
		if (!last)
			goto out;
	} else if (physical->device >= 0) {
		machine_give(devices[physical->device].machine_index, physical->size);
	} else {
		machine_count_host(-(int64_t)physical->size);
		node_give_back(physical);
	}
	fallocate(physical->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	          (off_t)physical->offset, (off_t)physical->size);
out:
	if (physical->own_file)
		close(physical->file);
	handle_remove(&physical->handle);
	free(physical);
}

void physical_drop(struct physical *physical)
{
	if (!physical->references && !physical->mappings &&
	    !(physical->shared && is_in_flight(physical)))
		give_back(physical);
}

void physical_settle(void)
{
	struct physical *physical, *next;
	LL_FOREACH_SAFE(all, physical, next)
	{
		physical_drop(physical);
	}
}

bool physical_share(struct physical *physical)
{
	if (physical->shared)
		return true;
	if (!machine_share(devices[physical->device].machine_index, physical->size,
	                   &physical->name))
		return false;
	physical->shared = true;
	LL_PREPEND(all, physical);
	return true;
}

struct physical *physical_named(const struct shared_name *name)
{
	struct physical *physical;
	LL_FOREACH (all, physical) {
		if (physical->name.index == name->index &&
		    physical->name.generation == name->generation)
			return physical;
	}
	return NULL;
}

struct physical *physical_adopt(int file, uint64_t offset, uint64_t size, int device,
                                const struct shared_name *name)
{
	struct physical *physical = calloc(1, sizeof(*physical));
	if (!physical || !handle_add(&physical->handle, HANDLE_PHYSICAL)) {
		free(physical);
		return NULL;
	}
	physical->device = device;
	physical->file = file;
	physical->offset = offset;
	physical->size = size;
	physical->own_file = true;
	physical->shared = true;
	physical->name = *name;
	LL_PREPEND(all, physical);
	return physical;
}
