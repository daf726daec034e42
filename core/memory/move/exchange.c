/*
 * Moving mapped memory. Rules: by the mover thread alone; what the driver refuses is asked for once
 * more, and what cannot be done is undone, so that every byte stays where it can be reached.
 */
#include "core/memory/move/exchange.h"

#include <string.h>

#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/cuda/mapping.h"

#define SCRATCH_BYTES ((uint64_t)2 << 30)

/* Addresses of each device where new memory is mapped to be copied to. */
static struct scratch {
	CUdeviceptr base;
	CUdeviceptr large; /* for one move alone that is larger; 0: none now */
	size_t large_size;
} scratch[DEVICE_MAX];

/* The mover's own stream, in whichever context of the device it was used last. */
static struct {
	char context[REGISTRY_NAME_MAX]; /* its container, which no other ever has; a handle may
	                                    come again */
	CUstream stream;
} copying[DEVICE_MAX];

/* Addresses for moves of which the first has so many bytes, or 0. */
static CUdeviceptr find_scratch(const struct device *device, size_t first)
{
	struct scratch *s = &scratch[device->id.ordinal];

	if (first > SCRATCH_BYTES) {
		if (driver.cuMemAddressReserve(&s->large, first, 0, 0, 0) != CUDA_SUCCESS)
			s->large = 0;
		s->large_size = first;
		return s->large;
	}
	if (!s->base &&
	    driver.cuMemAddressReserve(&s->base, SCRATCH_BYTES, 0, 0, 0) != CUDA_SUCCESS)
		s->base = 0;
	return s->base;
}

size_t moves_prepare(struct device *device, struct move *moves, size_t count)
{
	CUmemAccessDesc own = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t used = 0, room = moves[0].size > SCRATCH_BYTES ? moves[0].size : SCRATCH_BYTES;
	CUdeviceptr base = find_scratch(device, moves[0].size);
	size_t ready;

	own.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	own.location.id = device->handle;
	if (!base)
		return 0;
	for (ready = 0; ready < count && used + moves[ready].size <= room; ready++) {
		moves[ready].scratch = base + used;
		if (mapping_make(moves[ready].scratch, moves[ready].size, moves[ready].to) !=
		    CUDA_SUCCESS)
			break;
		used += moves[ready].size;
	}
	if (ready && mapping_allow(base, used, &own, 1) != CUDA_SUCCESS) {
		moves_finish(device, moves, ready);
		ready = 0;
	}
	for (size_t i = ready; i < count; i++)
		moves[i].scratch = 0;
	return ready;
}

void moves_finish(struct device *device, struct move *moves, size_t count)
{
	struct scratch *s = &scratch[device->id.ordinal];

	/* Neighbours by one call: the gate may be closed meanwhile. */
	for (size_t i = 0; i < count;) {
		CUdeviceptr base = moves[i].scratch;
		uint64_t size = 0;

		do {
			size += moves[i].size;
			moves[i++].scratch = 0;
		} while (base && i < count && moves[i].scratch == base + size);
		if (base)
			mapping_remove(base, size);
	}
	if (s->large)
		driver.cuMemAddressFree(s->large, s->large_size);
	s->large = 0;
}

/* Finds the stream that copies, with the context current; makes it where there is none. */
static CUresult find_stream(const struct device *device, const struct context *context,
                            CUstream *stream)
{
	int i = device->id.ordinal;
	CUresult result = CUDA_SUCCESS;

	if (strcmp(copying[i].context, context->container) != 0) {
		result = driver.cuStreamCreate(&copying[i].stream, CU_STREAM_NON_BLOCKING);
		if (result != CUDA_SUCCESS)
			return result;
		memcpy(copying[i].context, context->container, sizeof(copying[i].context));
	}
	*stream = copying[i].stream;
	return result;
}

static CUresult copy(const struct device *device, const struct move *moves, size_t count)
{
	struct context context;
	CUstream stream;
	CUresult result, waited;

	if (!context_of_device(device, &context))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = context_push(context.handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = find_stream(device, &context, &stream);
	if (result == CUDA_SUCCESS) {
		for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
			result = driver.cuMemcpyAsync(moves[i].scratch, moves[i].address,
			                              moves[i].size, stream);
		waited = driver.cuStreamSynchronize(stream);
		if (waited != CUDA_SUCCESS) /* by itself, or because something else broke */
			waited = driver.cuStreamSynchronize(stream);
		if (result == CUDA_SUCCESS)
			result = waited;
	}
	context_pop(context.handle);
	return result;
}

/* Puts back what was there. It has been there before, so only a broken driver refuses. */
static void restore(const struct move *m)
{
	if (mapping_make(m->address, m->size, m->from) != CUDA_SUCCESS ||
	    mapping_allow(m->address, m->size, m->access, m->accesses) != CUDA_SUCCESS)
		log_once(LOG_ERROR, "the driver does not map memory back that it had mapped: the "
		                    "program will fail where it uses it");
}

static CUresult exchange(struct move *m)
{
	CUresult result = mapping_remove(m->address, m->size);

	if (result != CUDA_SUCCESS)
		return result;
	result = mapping_make(m->address, m->size, m->to);
	if (result != CUDA_SUCCESS) {
		restore(m);
		return result;
	}
	m->is_done = true;
	return result;
}

/* Rights for those from `first` on that lie one behind the other and have the same. How many. */
static size_t open_run(struct move *moves, size_t first, size_t count)
{
	const struct move *m = &moves[first];
	size_t size = m->size, end = first + 1;

	while (end < count && moves[end].is_done && moves[end].access == m->access &&
	       moves[end].address == m->address + size)
		size += moves[end++].size;
	if (mapping_allow(m->address, size, m->access, m->accesses) == CUDA_SUCCESS)
		return end - first;
	for (size_t i = first; i < end; i++) {
		if (mapping_allow(moves[i].address, moves[i].size, moves[i].access,
		                  moves[i].accesses) == CUDA_SUCCESS)
			continue;
		mapping_remove(moves[i].address, moves[i].size);
		restore(&moves[i]);
		moves[i].is_done = false;
	}
	return end - first;
}

CUresult moves_run(struct device *device, struct move *moves, size_t count)
{
	CUresult result = copy(device, moves, count), exchanged;

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < count; i++) {
		exchanged = exchange(&moves[i]);
		if (exchanged != CUDA_SUCCESS)
			result = exchanged;
	}
	for (size_t i = 0; i < count;)
		i += moves[i].is_done ? open_run(moves, i, count) : 1;
	return result;
}
