/*
 * Bytes that exist: ranges of one anonymous file of this process. Offsets are never used twice;
 * what is freed is punched out of the file, so that the machine gets its memory back.
 */
#include "tests/softgpu/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/softgpu/machine.h"

#define FILE_SIZE (1ULL << 46) /* sparse: more than a process can ever allocate */

static int file = -1;
static uint64_t next_offset;

bool physical_open(void)
{
	file = memfd_create("softgpu", MFD_CLOEXEC);
	return file >= 0 && ftruncate(file, (off_t)FILE_SIZE) == 0;
}

int physical_file(void)
{
	return file;
}

CUresult physical_create(int device, uint64_t size, struct physical **out)
{
	if (size > FILE_SIZE - next_offset)
		return CUDA_ERROR_OUT_OF_MEMORY;
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
	physical->device = device;
	physical->offset = next_offset;
	physical->size = size;
	next_offset += size;
	if (device < 0)
		machine_count_host((int64_t)size);
	*out = physical;
	return CUDA_SUCCESS;
}

void physical_drop(struct physical *physical)
{
	if (physical->references || physical->mappings)
		return;
	fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)physical->offset,
	          (off_t)physical->size);
	if (physical->device >= 0)
		machine_give(devices[physical->device].machine_index, physical->size);
	else
		machine_count_host(-(int64_t)physical->size);
	handle_remove(&physical->handle);
	free(physical);
}
