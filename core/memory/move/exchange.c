/* SPDX-License-Identifier: MIT */
/*
 * Moving mapped memory. Rules: by the mover thread alone. A call that the driver refuses is made
 * once more. A step that fails is undone, so every byte stays where it can be reached.
 */
#include "core/memory/move/exchange.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/cuda/chunk.h"
#include "core/cuda/context.h"

#define SCRATCH_BYTES ((uint64_t)2 << 30)

/* Addresses of each device where new memory is mapped to be copied to. */
static struct scratch {
	CUdeviceptr base;
	CUdeviceptr large; /* for one move alone that is larger; 0: none now */
	size_t large_size;
} scratch[DEVICE_MAX];

/*
 * Several streams copy at once, so that none of the device's copying engines waits for the driver:
 * the mover's own, in whichever context of the device they were used last.
 */
enum { STREAMS = 2 };
static struct copying {
	char context[REGISTRY_NAME_MAX]; /* its container, which no other ever has; a handle may
	                                    come again */
	CUstream streams[STREAMS];
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

/* Makes the streams that copy where there are none, with the context current. */
static CUresult find_streams(struct copying *c, const struct context *context)
{
	CUstream made[STREAMS];
	CUresult result;

	if (strcmp(c->context, context->container) == 0)
		return CUDA_SUCCESS;
	for (int i = 0; i < STREAMS; i++) {
		result = driver.cuStreamCreate(&made[i], CU_STREAM_NON_BLOCKING);
		if (result != CUDA_SUCCESS) {
			while (i-- > 0)
				driver.cuStreamDestroy_v2(made[i]);
			return result;
		}
	}
	memcpy(c->streams, made, sizeof(made));
	memcpy(c->context, context->container, sizeof(c->context));
	return CUDA_SUCCESS;
}

/* Gives each stream a part of each move. */
static CUresult enqueue(const struct copying *c, const struct move *moves, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++) {
		const struct move *m = &moves[i];
		size_t part = m->size / STREAMS;

		for (int k = 0; k < STREAMS && result == CUDA_SUCCESS; k++)
			result = driver.cuMemcpyAsync(m->scratch + k * part, m->address + k * part,
			                              k == STREAMS - 1 ? m->size - k * part : part,
			                              c->streams[k]);
	}
	return result;
}

/* Does other work, as long as the copies last. */
static void work_while_copying(struct meanwhile *meanwhile)
{
	uint64_t ends = clock_now() + meanwhile->copy_ns, now;

	while ((now = clock_now()) < ends && meanwhile->work(meanwhile, ends - now))
		;
}

static CUresult wait_for_copies(const struct copying *c)
{
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < STREAMS; i++) {
		CUresult waited = driver.cuStreamSynchronize(c->streams[i]);

		if (waited != CUDA_SUCCESS) /* by itself, or because something else broke */
			waited = driver.cuStreamSynchronize(c->streams[i]);
		if (result == CUDA_SUCCESS)
			result = waited;
	}
	return result;
}

static CUresult exchange_copy(const struct device *device, const struct move *moves, size_t count,
                              struct meanwhile *meanwhile)
{
	struct copying *c = &copying[device->id.ordinal];
	struct context context;
	CUresult result, waited;

	if (!context_of_device(device, &context))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = context_push(context.handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = find_streams(c, &context);
	if (result == CUDA_SUCCESS) {
		uint64_t began = clock_now();

		result = enqueue(c, moves, count);
		if (result == CUDA_SUCCESS)
			work_while_copying(meanwhile);
		waited = wait_for_copies(c);
		meanwhile->copied_ns = clock_now() - began;
		if (result == CUDA_SUCCESS)
			result = waited;
	}
	context_pop(context.handle);
	return result;
}

/* Maps the old memory again. It has been there before, so only a broken driver refuses. */
static void exchange_restore(const struct move *m)
{
	if (mapping_make(m->address, m->size, m->from) != CUDA_SUCCESS ||
	    mapping_allow(m->address, m->size, m->access, m->accesses) != CUDA_SUCCESS)
		log_once(LOG_ERROR, "the driver does not map memory back that it had mapped: the "
		                    "program will fail where it uses it");
}

static CUresult exchange_exchange(struct move *m)
{
	CUresult result = mapping_remove(m->address, m->size);

	if (result != CUDA_SUCCESS)
		return result;
	result = mapping_make(m->address, m->size, m->to);
	if (result != CUDA_SUCCESS) {
		exchange_restore(m);
		return result;
	}
	m->is_done = true;
	return result;
}

/* Exchanges it at its other addresses, too; else it is as before. */
static void exchange_others(struct move *m)
{
	if (!m->map_others || m->map_others(m, m->to))
		return;
	m->map_others(m, m->from);
	mapping_remove(m->address, m->size);
	exchange_restore(m);
	m->is_done = false;
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
		exchange_restore(&moves[i]);
		moves[i].is_done = false;
	}
	return end - first;
}

CUresult moves_run(struct device *device, struct move *moves, size_t count,
                   struct meanwhile *meanwhile)
{
	CUresult result = exchange_copy(device, moves, count, meanwhile), exchanged;

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < count; i++) {
		exchanged = exchange_exchange(&moves[i]);
		if (exchanged != CUDA_SUCCESS)
			result = exchanged;
	}
	for (size_t i = 0; i < count;)
		i += moves[i].is_done ? open_run(moves, i, count) : 1;
	for (size_t i = 0; i < count; i++)
		if (moves[i].is_done)
			exchange_others(&moves[i]);
	return result;
}
