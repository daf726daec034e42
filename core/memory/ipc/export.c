/* SPDX-License-Identifier: MIT */
/*
 * Giving memory to other processes. Rules: runs inside the user's process, within its calls and on
 * the server's thread; a request names what was given away, and nothing else can be had.
 */
#include "core/memory/ipc/ipc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/exported.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/slab.h"
#include "core/memory/ipc/server.h"

struct given {
	uint64_t number; /* never used twice in this process */
	struct device *device;
	CUdeviceptr address;
	bool is_in_slab;
	CUipcMemHandle of_slab; /* then: the driver's handle of it */
	uint64_t offset;        /* in it */
	UT_hash_handle hh;
};

/* While it is held, nothing that was given away is freed. */
static LOCK_OF(EXPORTS) lock = LOCK_FREE;
static struct given *all; /* by number */
static uint64_t last_number;

/* Finds what was given under a number, with the lock held. */
static struct given *find(uint64_t number)
{
	struct given *given;

	HASH_FIND(hh, all, &number, sizeof(number), given);
	return given;
}

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

/* Gives the pieces that a request asks for, with the lock held. */
static void give(const struct given *given, const struct wire_request *request,
                 struct wire_reply *reply, int descriptors[WIRE_BATCH])
{
	struct elastic_piece *pieces;
	size_t total;

	if (given->is_in_slab) {
		reply->status = WIRE_DRIVER_S;
		reply->bytes = SLAB_BYTES;
		reply->offset = given->offset;
		memcpy(reply->driver_s, &given->of_slab, sizeof(reply->driver_s));
		return;
	}
	total = elastic_pieces(given->address, NULL, 0, &reply->offset);
	pieces = calloc(total, sizeof(*pieces));
	reply->total = (uint32_t)total;
	if (pieces && request->first < total &&
	    elastic_pieces(given->address, pieces, total, &reply->offset) == total)
		give_pieces(given->device, request, pieces, reply, descriptors);
	free(pieces);
}

static void answer(const struct wire_request *request, struct wire_reply *reply,
                   int descriptors[WIRE_BATCH])
{
	const struct given *given;

	reply->status = WIRE_GONE;
	lock_acquire(&lock);
	given = find(request->handle.number);
	if (given && given->address == request->handle.address)
		give(given, request, reply, descriptors);
	lock_release(&lock);
}

/* --- what the program calls --- */

/* Enters what is given, with the lock held. Returns its number, or 0 where there is no memory. */
static uint64_t enter(const struct ipc_gift *gift)
{
	struct given *given = calloc(1, sizeof(*given));

	if (!given)
		return 0;
	*given = (struct given){.number = ++last_number,
	                        .device = gift->device,
	                        .address = gift->address,
	                        .is_in_slab = gift->of_slab != NULL,
	                        .offset = gift->offset};
	if (gift->of_slab)
		given->of_slab = *gift->of_slab;
	HASH_ADD(hh, all, number, sizeof(given->number), given);
	if (given->hh.tbl)
		return given->number;
	free(given);
	return 0;
}

CUresult ipc_give(const struct ipc_gift *gift, CUipcMemHandle *handle)
{
	struct wire_handle ours = wire_handle_new();
	char message[512] = "";

	if (ipc_serve(answer, &ours.token, message, sizeof(message)) != 0) {
		log_once(LOG_WARNING, "memory cannot be shared with other processes: %s", message);
		return CUDA_ERROR_MAP_FAILED;
	}
	lock_acquire(&lock);
	if (!*gift->number)
		*gift->number = enter(gift);
	ours.number = *gift->number;
	lock_release(&lock);
	if (!ours.number)
		return CUDA_ERROR_MAP_FAILED;
	ours.pid = getpid();
	ours.address = gift->address;
	ours.size = gift->size;
	memcpy(handle, &ours, sizeof(ours));
	return CUDA_SUCCESS;
}

void ipc_withdraw(_Atomic uint64_t *number)
{
	struct given *given;

	if (!atomic_load_explicit(number, memory_order_relaxed))
		return;
	lock_acquire(&lock);
	given = find(*number);
	if (given)
		HASH_DEL(all, given);
	*number = 0;
	lock_release(&lock);
	free(given);
}
