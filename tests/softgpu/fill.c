/* SPDX-License-Identifier: MIT */
/* The cuMemset* calls. The host does not wait for them, except where they fill its own memory. */
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/memory.h"
#include "tests/softgpu/work.h"

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

static bool fill_row(const struct fill *fill, uint64_t address, struct host_link *link)
{
	for (uint64_t left = fill->width; left;) {
		uint64_t run;
		bool crosses = false;
		pthread_rwlock_rdlock(&memory_lock);
		void *target = side_bytes(address, true, &run);
		if (target) {
			run = host_link_piece(address, run < left ? run : left);
			fill_units(target, fill->value, fill->unit, run);
			crosses = config()->host_bandwidth && is_on_host(address);
		}
		pthread_rwlock_unlock(&memory_lock);
		if (!target) {
			say("a memset at %#llx touched memory that is not accessible",
			    (unsigned long long)address);
			return false;
		}
		host_link_use(link, crosses ? run : 0);
		address += run;
		left -= run;
	}
	return true;
}

static CUresult run_fill(struct work *work, CUresult broken)
{
	(void)broken;
	const struct fill *fill = (const struct fill *)work;
	struct host_link link = {.began_ns = now_ns()};
	for (uint64_t y = 0; y < fill->height; y++)
		if (!fill_row(fill, fill->address + y * fill->pitch, &link))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
	return CUDA_SUCCESS;
}

CUresult fill_check(const CUDA_MEMSET_NODE_PARAMS_v2 *what, enum side_kind *kind)
{
	uint64_t width, bytes;
	unsigned int unit = what->elementSize;
	if ((unit != 1 && unit != 2 && unit != 4) ||
	    __builtin_mul_overflow(what->width, unit, &width) || what->dst % unit ||
	    (what->height > 1 && (what->pitch % unit || what->pitch < width)) ||
	    __builtin_mul_overflow(what->height - 1, what->pitch, &bytes) ||
	    __builtin_add_overflow(bytes, width, &bytes) || what->dst + bytes < what->dst)
		return CUDA_ERROR_INVALID_VALUE;
	struct copy_side side = {.address = what->dst};
	CUresult result = classify(&side, bytes);
	*kind = side.kind;
	if (result == CUDA_SUCCESS && is_refused_as_mixed(what->dst, bytes, FORM_FILL))
		return CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS && side.kind != SIDE_PAGEABLE ? CUDA_SUCCESS
	                                                            : CUDA_ERROR_INVALID_VALUE;
}

struct work *fill_work(const CUDA_MEMSET_NODE_PARAMS_v2 *what)
{
	struct fill *fill = malloc(sizeof(*fill));
	if (!fill)
		return NULL;
	*fill = (struct fill){
	    .work.run = run_fill,
	    .address = what->dst,
	    .pitch = what->pitch,
	    .width = what->width * what->elementSize,
	    .height = what->height,
	    .value = what->value,
	    .unit = what->elementSize,
	};
	return &fill->work;
}

/* Checks and queues; the pitch matters with more than one row only. */
static CUresult submit(struct stream *stream, const CUDA_MEMSET_NODE_PARAMS_v2 *what, bool wait)
{
	enum side_kind kind;
	CUresult result = wait ? capture_check_queue(stream) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS || what->width == 0 || what->height == 0)
		return result;
	result = fill_check(what, &kind);
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->capture) {
		CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = *what};
		params.memset.ctx = (CUcontext)stream->context;
		return capture_add(stream, &params);
	}
	struct work *work = fill_work(what);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = stream_submit(stream, work);
	if (result == CUDA_SUCCESS && wait &&
	    (kind == SIDE_PINNED || (kind == SIDE_DEVICE && is_on_host(what->dst))))
		result = stream_wait(stream);
	return result;
}

static CUresult enter_and_submit(const char *call, CUstream handle,
                                 const CUDA_MEMSET_NODE_PARAMS_v2 *what, bool wait)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	return leave(stream ? submit(stream, what, wait) : CUDA_ERROR_INVALID_HANDLE);
}

/* The four forms of each unit: rows or not, waiting or not. */
#define MEMSET(bits, type)                                                                         \
	static CUresult cuMemsetD##bits##_v2_on(const char *call, CUstream stream,                 \
	                                        CUdeviceptr address, type value, size_t count)     \
	{                                                                                          \
		CUDA_MEMSET_NODE_PARAMS_v2 what = {.dst = address,                                 \
		                                   .width = count,                                 \
		                                   .height = 1,                                    \
		                                   .value = value,                                 \
		                                   .elementSize = sizeof(type)};                   \
		return enter_and_submit(call, stream, &what, true);                                \
	}                                                                                          \
	EXPORT_ON_DEFAULT(cuMemsetD##bits##_v2, (CUdeviceptr address, type value, size_t count),   \
	                  address, value, count)                                                   \
	static CUresult cuMemsetD##bits##Async_on(const char *call, CUdeviceptr address,           \
	                                          type value, size_t count, CUstream stream)       \
	{                                                                                          \
		CUDA_MEMSET_NODE_PARAMS_v2 what = {.dst = address,                                 \
		                                   .width = count,                                 \
		                                   .height = 1,                                    \
		                                   .value = value,                                 \
		                                   .elementSize = sizeof(type)};                   \
		return enter_and_submit(call, stream, &what, false);                               \
	}                                                                                          \
	EXPORT_ON_STREAM(cuMemsetD##bits##Async,                                                   \
	                 (CUdeviceptr address, type value, size_t count, CUstream stream),         \
	                 address, value, count, stream)                                            \
	static CUresult cuMemsetD2D##bits##_v2_on(const char *call, CUstream stream,               \
	                                          CUdeviceptr address, size_t pitch, type value,   \
	                                          size_t width, size_t height)                     \
	{                                                                                          \
		CUDA_MEMSET_NODE_PARAMS_v2 what = {.dst = address,                                 \
		                                   .pitch = pitch,                                 \
		                                   .width = width,                                 \
		                                   .height = height,                               \
		                                   .value = value,                                 \
		                                   .elementSize = sizeof(type)};                   \
		return enter_and_submit(call, stream, &what, true);                                \
	}                                                                                          \
	EXPORT_ON_DEFAULT(                                                                         \
	    cuMemsetD2D##bits##_v2,                                                                \
	    (CUdeviceptr address, size_t pitch, type value, size_t width, size_t height), address, \
	    pitch, value, width, height)                                                           \
	static CUresult cuMemsetD2D##bits##Async_on(const char *call, CUdeviceptr address,         \
	                                            size_t pitch, type value, size_t width,        \
	                                            size_t height, CUstream stream)                \
	{                                                                                          \
		CUDA_MEMSET_NODE_PARAMS_v2 what = {.dst = address,                                 \
		                                   .pitch = pitch,                                 \
		                                   .width = width,                                 \
		                                   .height = height,                               \
		                                   .value = value,                                 \
		                                   .elementSize = sizeof(type)};                   \
		return enter_and_submit(call, stream, &what, false);                               \
	}                                                                                          \
	EXPORT_ON_STREAM(cuMemsetD2D##bits##Async,                                                 \
	                 (CUdeviceptr address, size_t pitch, type value, size_t width,             \
	                  size_t height, CUstream stream),                                         \
	                 address, pitch, value, width, height, stream)

MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
