/*
 * Giving memory to other processes. Rules: runs inside the user's process, within its calls and on the server's
 * thread; a request names an allocation, and only what was given away can be had.
 */
#include "core/memory/ipc/ipc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/lock.h"
#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/elastic.h"
#include "core/budget/exported.h"
#include "core/budget/refusal.h"
#include "core/budget/wanted.h"
#include "core/memory/ipc/server.h"
#include "core/cuda/capture.h"

#define EXPORT_PATIENCE_NS 60000000000ull
#define EXPORT_LOOK_NS     10000000ull

/* Guards allocations' numbers; while it is held, nothing that has one is freed. */
static LOCK_OF(EXPORTS) lock = LOCK_FREE;
static uint64_t last_number;

/* --- for who asks: on the server's thread --- */

static void give_pieces(struct device *device, const struct wire_request *request,
                        const struct elastic_piece *pieces, struct wire_reply *reply,
                        int descriptors[WIRE_BATCH])
{
	for (size_t i = 0; i < reply->total; i++)
		reply->bytes += pieces[i].size;
	reply->first = request->first;
	while (reply->count < request->most && reply->first + reply->count < reply->total) {
		const struct elastic_piece *piece = &pieces[reply->first + reply->count];
		int *descriptor = &descriptors[reply->count];

		if (driver.cuMemExportToShareableHandle(descriptor, piece->handle,
		                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		                                        0) != CUDA_SUCCESS)
			break;
		exported_mark(device, *descriptor,
		              exported_enter(device, piece->handle, piece->size), piece->size);
		reply->size[reply->count++] = piece->size;
	}
	reply->status = reply->count ? WIRE_OK : WIRE_BUSY;
}

/* With the lock held. */
static void give_allocation(const struct wire_request *request, const struct allocation *a,
                            struct wire_reply *reply, int descriptors[WIRE_BATCH])
{
	size_t total = elastic_pieces(a->address, NULL, 0, &reply->offset);
	struct elastic_piece *pieces = calloc(total, sizeof(*pieces));

	reply->total = (uint32_t)total;
	if (pieces && request->first < total &&
	    elastic_pieces(a->address, pieces, total, &reply->offset) == total)
		give_pieces(a->context.device, request, pieces, reply, descriptors);
	free(pieces);
}

static void answer(const struct wire_request *request, struct wire_reply *reply,
                   int descriptors[WIRE_BATCH])
{
	struct allocation *a;

	reply->status = WIRE_GONE;
	lock_acquire(&lock);
	a = allocation_in_arena(request->handle.address);
	if (a && a->shared_as && a->shared_as == request->handle.number)
		give_allocation(request, a, reply, descriptors);
	lock_release(&lock);
	if (a)
		resource_release(&a->resource);
}

/* --- what the program calls --- */

static CUresult fill(struct allocation *a, CUipcMemHandle *handle)
{
	struct wire_handle ours = wire_handle_new();
	char message[512] = "";

	if (ipc_serve(answer, &ours.token, message, sizeof(message)) != 0) {
		log_once(LOG_WARNING, "memory cannot be shared with other processes: %s", message);
		return CUDA_ERROR_MAP_FAILED;
	}
	lock_acquire(&lock);
	if (!a->shared_as)
		a->shared_as = ++last_number;
	a->is_given_away = true;
	ours.number = a->shared_as;
	lock_release(&lock);
	ours.pid = getpid();
	ours.address = a->address;
	ours.size = a->size;
	memcpy(handle, &ours, sizeof(ours));
	return CUDA_SUCCESS;
}

static bool can_export(const struct device *device)
{
	int can = 0;

	return driver.cuDeviceGetAttribute(
	           &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
	           device->handle) == CUDA_SUCCESS &&
	       can;
}

/* What is in flight must end first; the mover gives up before a caller that waits anyway need do so. */
static CUresult make_exportable(struct allocation *a)
{
	struct deadline until = DEADLINE_IN(EXPORT_PATIENCE_NS);
	CUresult result;

	if (!can_export(a->context.device)) {
		log_once(LOG_WARNING,
		         "gpu %d: its memory cannot be shared with another process "
		         "(cuIpcGetMemHandle) and be moved as well",
		         a->context.device->id.ordinal);
		return CUDA_ERROR_MAP_FAILED;
	}
	a->is_shared = true;
	while ((result = wanted_pin(a->context.device, a->address, true,
	                            &DEADLINE_IN(WANTED_ANSWER_NS))) == CUDA_ERROR_NOT_READY &&
	       !capture_is_active() && deadline_nap(&until, EXPORT_LOOK_NS))
		;
	return result;
}

static void say_refused(const struct allocation *a)
{
	const uint64_t unit = ARENA_UNIT;
	struct device *device = a->context.device;
	char enough[64];

	log_once(
	    LOG_WARNING,
	    "gpu %d: memory that has no room on the device cannot be shared with another process "
	    "(cuIpcGetMemHandle): what cannot leave the device fills memory_limit; %s",
	    device->id.ordinal,
	    refusal_enough(device, (a->size + unit - 1) / unit * unit, enough, sizeof(enough)));
}

bool ipc_give(CUdeviceptr address, CUipcMemHandle *handle, CUresult *result)
{
	struct allocation *a = handle ? allocation_in_arena(address) : NULL;
	bool is_ours = a && !a->pool; /* pools have export calls of their own */
	int cancel;

	if (!a)
		return false;
	if (is_ours) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		*result = make_exportable(a);
		if (*result == CUDA_SUCCESS)
			*result = fill(a, handle);
		else if (*result != CUDA_ERROR_OUT_OF_MEMORY)
			*result = CUDA_ERROR_MAP_FAILED;
		if (*result == CUDA_ERROR_OUT_OF_MEMORY)
			say_refused(a);
		pthread_setcancelstate(cancel, NULL);
	}
	resource_release(&a->resource);
	return is_ours;
}

void ipc_withdraw(struct allocation *a)
{
	if (!atomic_load_explicit(&a->shared_as, memory_order_relaxed))
		return;
	lock_acquire(&lock);
	a->shared_as = 0;
	lock_release(&lock);
}
