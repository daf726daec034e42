/* SPDX-License-Identifier: MIT */
/*
 * IPC memory at the front: an allocation that is given away comes to the device and stays there,
 * and memory of another job that is opened has room made for it. Rules: runs inside the user's
 * process, within its calls; may wait for the mover.
 */
#include <pthread.h>

#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/budget/refusal.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/job/module.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/small.h"
#include "core/modules/ipc/ipc.h"
#include "core/modules/ipc/server.h"

#define EXPORT_PATIENCE_NS 60000000000ull
#define EXPORT_LOOK_NS     10000000ull

/* --- giving --- */

static bool can_export(const struct device *device)
{
	int can = 0;

	return driver.cuDeviceGetAttribute(
	           &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
	           device->handle) == CUDA_SUCCESS &&
	       can;
}

/*
 * Brings it to the device in memory that can be exported. Waits until nothing is in flight, too;
 * the mover gives up before a caller that waits anyway need do so.
 */
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

static void note_refused_gift(const struct allocation *a)
{
	const struct refused refused = refusal_of_unmovable(a->context.device, a->size);

	refusal_note(a->context.device, REFUSED_GIVE, &refused);
}

/* Gives it away: once it is freed it may still be open elsewhere. */
static CUresult ipc_memory_do_give(struct allocation *a, CUipcMemHandle *handle)
{
	const struct ipc_gift gift = {.device = a->context.device,
	                              .address = a->address,
	                              .size = a->size,
	                              .number = &a->shared_as};

	a->is_given_away = true;
	return ipc_give(&gift, handle);
}

static CUresult give_in_slab(struct allocation *a, CUipcMemHandle *handle)
{
	CUipcMemHandle of_slab;
	struct ipc_gift gift = {.device = a->context.device,
	                        .address = a->address,
	                        .size = a->size,
	                        .of_slab = &of_slab,
	                        .number = &a->shared_as};
	CUresult result = small_export(a->address, &of_slab, &gift.offset);

	if (result != CUDA_SUCCESS)
		return result;
	a->is_shared = a->is_given_away = true;
	return ipc_give(&gift, handle);
}

/*
 * Gives a block of a slab away, by a handle of ours. The driver's handle would be of the whole
 * slab, and open at its first block: only an importer under Spillway knows the block's offset. A
 * block cannot move to memory of its own either, because its address would not stay. So memory that
 * the process allocates from now on has the driver's own handles, which any importer can open.
 */
static bool give_block(CUdeviceptr address, CUipcMemHandle *handle, CUresult *result)
{
	struct allocation *a = allocation_in_slab(address);
	int cancel;

	if (!a)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	vmem_share_small();
	*result = give_in_slab(a, handle);
	if (*result == CUDA_SUCCESS)
		log_once(
		    LOG_WARNING,
		    "gpu %d: an allocation of %zu bytes that is given to another process "
		    "(cuIpcGetMemHandle) lies in a block of 2 MiB with others: only a process "
		    "under Spillway, of this user and state directory, can open it. Any process "
		    "can open what this one allocates from now on",
		    a->context.device->id.ordinal, a->size);
	pthread_setcancelstate(cancel, NULL);
	resource_release(&a->resource);
	return true;
}

static bool ipc_memory_give(CUdeviceptr address, CUipcMemHandle *handle, CUresult *result)
{
	struct allocation *a = handle ? allocation_in_arena(address) : NULL;
	bool is_ours = a && !a->pool; /* pools have export calls of their own */
	int cancel;

	if (!a)
		return handle && give_block(address, handle, result);
	if (is_ours) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		*result = make_exportable(a);
		if (*result == CUDA_SUCCESS)
			*result = ipc_memory_do_give(a, handle);
		else if (*result == CUDA_ERROR_OUT_OF_MEMORY)
			note_refused_gift(a);
		else
			*result = CUDA_ERROR_MAP_FAILED;
		pthread_setcancelstate(cancel, NULL);
	}
	resource_release(&a->resource);
	return is_ours;
}

/* --- opening --- */

/* lack->device: NULL where no room was lacking, but memory of the process. */
static void note_refused_opening(const struct context *context, const struct ipc_lack *lack)
{
	struct refused refused = {REFUSED_PROCESS, lack->bytes, 0, REFUSED_NO_LIMIT};

	if (lack->device)
		refused = refusal_of_unmovable(lack->device, lack->bytes);
	refusal_note(lack->device ? lack->device : context->device, REFUSED_IMPORT, &refused);
}

/* Makes room for the memory to open, on the device that the first answer of its owner names. */
static bool ipc_memory_make_room(struct reclaim *r, struct terms *terms, struct deadline *until,
                                 const struct ipc_lack *missing)
{
	const struct lack lack = {.tier = SEGMENT_ON_DEVICE,
	                          .bytes = missing->bytes,
	                          .least = missing->bytes,
	                          .why = SPILL_LIMIT};

	if (!missing->device)
		return false;
	if (!r->device) {
		*terms = terms_of(missing->device);
		*until = reclaim_deadline(terms, true);
		*r = (struct reclaim){
		    .device = missing->device, .terms = terms, .until = until, .may_demote = true};
	}
	return r->device == missing->device && reclaim(r, &lack);
}

static CUresult ipc_memory_open(const struct context *context, const CUipcMemHandle *handle,
                                unsigned int flags, CUdeviceptr *address)
{
	struct reclaim request = {.device = NULL};
	struct ipc_lack lack;
	struct deadline until;
	struct terms terms;
	CUresult result;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	do
		result = ipc_open(context, handle, flags, address, &lack);
	while (result == CUDA_ERROR_OUT_OF_MEMORY &&
	       ipc_memory_make_room(&request, &terms, &until, &lack));
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		note_refused_opening(context, &lack);
	pthread_setcancelstate(cancel, NULL);
	return result;
}

static void ipc_start(bool *has_started)
{
	static const struct ipc_calls calls = {.give = ipc_memory_give,
	                                       .withdraw = ipc_withdraw,
	                                       .is_ours = ipc_is_ours,
	                                       .open = ipc_memory_open,
	                                       .close = ipc_close,
	                                       .find = ipc_find};

	(void)has_started;
	atomic_store(&ipc_calls, &calls);
}

const struct module module_ipc = {.name = "ipc",
                                  .start = ipc_start,
                                  .stop = ipc_stop,
                                  .forked = ipc_forked,
                                  .left_context = ipc_forget_context};
