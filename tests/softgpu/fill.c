/* The cuMemset* calls. The host does not wait for them, except where they fill its own memory. */
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/copy.h"
#include "tests/softgpu/memory.h"

struct fill {
	struct work work;
	uint64_t address, pitch;
	uint64_t width, height; /* bytes, rows */
	uint32_t value;
	unsigned int unit; /* bytes of the value */
};

static void fill_units(void *target, uint32_t value, unsigned int unit, uint64_t size)
{
	if (unit == 1) {
		memset(target, (int)value, size);
	} else if (unit == 2) {
		for (uint64_t i = 0; i < size / 2; i++)
			((uint16_t *)target)[i] = (uint16_t)value;
	} else {
		for (uint64_t i = 0; i < size / 4; i++)
			((uint32_t *)target)[i] = value;
	}
}

static bool fill_row(const struct fill *fill, uint64_t address)
{
	for (uint64_t left = fill->width; left;) {
		uint64_t run;
		pthread_rwlock_rdlock(&memory_lock);
		void *target = side_bytes(address, true, &run);
		if (target) {
			run = run < left ? run : left;
			fill_units(target, fill->value, fill->unit, run);
		}
		pthread_rwlock_unlock(&memory_lock);
		if (!target) {
			say("a memset at %#llx touched memory that is not accessible",
			    (unsigned long long)address);
			return false;
		}
		address += run;
		left -= run;
	}
	return true;
}

static CUresult run_fill(struct work *work, CUresult broken)
{
	(void)broken;
	const struct fill *fill = (const struct fill *)work;
	for (uint64_t y = 0; y < fill->height; y++)
		if (!fill_row(fill, fill->address + y * fill->pitch))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
	return CUDA_SUCCESS;
}

/* Checks and queues; the pitch matters with more than one row only. */
static CUresult submit(struct stream *stream, struct fill what, bool wait)
{
	uint64_t bytes;
	if (what.width == 0 || what.height == 0)
		return CUDA_SUCCESS;
	if (what.address % what.unit || (what.height > 1 && what.pitch % what.unit) ||
	    (what.height > 1 && what.pitch < what.width) ||
	    __builtin_mul_overflow(what.height - 1, what.pitch, &bytes) ||
	    __builtin_add_overflow(bytes, what.width, &bytes) ||
	    what.address + bytes < what.address)
		return CUDA_ERROR_INVALID_VALUE;
	struct copy_side side = {.address = what.address};
	CUresult result = classify(&side, bytes);
	if (result != CUDA_SUCCESS || side.kind == SIDE_PAGEABLE)
		return CUDA_ERROR_INVALID_VALUE;
	struct fill *fill = malloc(sizeof(*fill));
	if (!fill)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*fill = what;
	fill->work.run = run_fill;
	result = stream_submit(stream, &fill->work);
	if (result == CUDA_SUCCESS && wait && side.kind == SIDE_PINNED)
		result = stream_wait(stream);
	return result;
}

/* `what` holds widths in units, as the calls have them. */
static CUresult enter_and_submit(const char *call, CUstream handle, struct fill what, bool wait)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (__builtin_mul_overflow(what.width, what.unit, &what.width))
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(submit(stream, what, wait));
}

/* The four forms of each unit: rows or not, waiting or not. */
#define MEMSET(bits, type)                                                                         \
	static CUresult cuMemsetD##bits##_v2_on(const char *call, CUstream stream,                 \
	                                        CUdeviceptr address, type value, size_t count)     \
	{                                                                                          \
		struct fill what = {.address = address,                                            \
		                    .width = count,                                                \
		                    .height = 1,                                                   \
		                    .value = value,                                                \
		                    .unit = sizeof(type)};                                         \
		return enter_and_submit(call, stream, what, true);                                 \
	}                                                                                          \
	EXPORT_ON_DEFAULT(cuMemsetD##bits##_v2, (CUdeviceptr address, type value, size_t count),   \
	                  address, value, count)                                                   \
	static CUresult cuMemsetD##bits##Async_on(const char *call, CUdeviceptr address,           \
	                                          type value, size_t count, CUstream stream)       \
	{                                                                                          \
		struct fill what = {.address = address,                                            \
		                    .width = count,                                                \
		                    .height = 1,                                                   \
		                    .value = value,                                                \
		                    .unit = sizeof(type)};                                         \
		return enter_and_submit(call, stream, what, false);                                \
	}                                                                                          \
	EXPORT_ON_STREAM(cuMemsetD##bits##Async,                                                   \
	                 (CUdeviceptr address, type value, size_t count, CUstream stream),         \
	                 address, value, count, stream)                                            \
	static CUresult cuMemsetD2D##bits##_v2_on(const char *call, CUstream stream,               \
	                                          CUdeviceptr address, size_t pitch, type value,   \
	                                          size_t width, size_t height)                     \
	{                                                                                          \
		struct fill what = {.address = address,                                            \
		                    .pitch = pitch,                                                \
		                    .width = width,                                                \
		                    .height = height,                                              \
		                    .value = value,                                                \
		                    .unit = sizeof(type)};                                         \
		return enter_and_submit(call, stream, what, true);                                 \
	}                                                                                          \
	EXPORT_ON_DEFAULT(                                                                         \
	    cuMemsetD2D##bits##_v2,                                                                \
	    (CUdeviceptr address, size_t pitch, type value, size_t width, size_t height), address, \
	    pitch, value, width, height)                                                           \
	static CUresult cuMemsetD2D##bits##Async_on(const char *call, CUdeviceptr address,         \
	                                            size_t pitch, type value, size_t width,        \
	                                            size_t height, CUstream stream)                \
	{                                                                                          \
		struct fill what = {.address = address,                                            \
		                    .pitch = pitch,                                                \
		                    .width = width,                                                \
		                    .height = height,                                              \
		                    .value = value,                                                \
		                    .unit = sizeof(type)};                                         \
		return enter_and_submit(call, stream, what, false);                                \
	}                                                                                          \
	EXPORT_ON_STREAM(cuMemsetD2D##bits##Async,                                                 \
	                 (CUdeviceptr address, size_t pitch, type value, size_t width,             \
	                  size_t height, CUstream stream),                                         \
	                 address, pitch, value, width, height, stream)

MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
