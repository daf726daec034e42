/* SPDX-License-Identifier: MIT */
/* Opened memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/ipc/opened.h"

#include <stdlib.h>

#include "core/base/address_map.h"
#include "core/base/lock.h"
#include "core/budget/exported.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/idle.h"
#include "core/memory/uses/side.h"

/*
 * Opening and closing, one at a time. A mark and no lock that is held: who has the turn may come to
 * the gate, to make room for what another job gives.
 */
static LOCK_OF(IMPORT_TURN) turn_lock = LOCK_FREE;
static pthread_cond_t turn_is_given = PTHREAD_COND_INITIALIZER;
static bool turn;
static struct opened *by_key;    /* guarded by turn, as are the postponed: closed, but a capture */
static struct opened *postponed; /* forbade to wait for who uses them */

void opened_take_turn(void)
{
	lock_acquire(&turn_lock);
	while (turn)
		condition_wait(&turn_is_given, &turn_lock);
	turn = true;
	lock_release(&turn_lock);
}

void opened_give_turn(void)
{
	lock_acquire(&turn_lock);
	turn = false;
	pthread_cond_signal(&turn_is_given);
	lock_release(&turn_lock);
}

/*
 * Finds what is opened at an address, or returns NULL. The answer is good as long as the caller has
 * its turn.
 */
static struct opened *find_at(CUdeviceptr address)
{
	struct address_range found;

	return address_map_find(address, &found) && found.kind == ADDRESS_OF_IMPORT ? found.owner
	                                                                            : NULL;
}

/* Copies where it is, for who has no turn. */
static bool copy_place(void *owner, void *place)
{
	*(struct ipc_place *)place = ((const struct opened *)owner)->place;
	return true;
}

bool ipc_find(CUdeviceptr address, struct ipc_place *place)
{
	return address_map_hold(address, 1, ADDRESS_OF_IMPORT, copy_place, place);
}

bool opened_enter(struct opened *m)
{
	const struct address_range range = {m->place.base, m->place.size, m, ADDRESS_OF_IMPORT};

	HASH_ADD(hh, by_key, key, sizeof(m->key), m);
	if (m->hh.tbl && address_map_add(&range) == 0)
		return true;
	if (m->hh.tbl)
		HASH_DEL(by_key, m);
	return false;
}

static void leave(struct opened *m)
{
	struct leaving leaving;

	HASH_DEL(by_key, m);
	address_map_remove(m->place.base, m);
	for (; m->opened > 0; m->opened--) {
		leaving = context_leave_object(&side_type_ipc_mapping, m->place.base);
		side_left(&leaving, true);
	}
}

struct opened *opened_by_key(const struct opened_key *key)
{
	struct opened *m;

	HASH_FIND(hh, by_key, key, sizeof(*key), m);
	return m;
}

void opened_give_up_pieces(struct opened *m, struct device *device)
{
	for (size_t i = 0; i < m->imported_count; i++)
		imported_leave(device, m->imported[i]);
	device_count_elsewhere(device, -(int64_t)m->charged);
	if (m->charged)
		device_uncharge(device, SEGMENT_ON_DEVICE, m->charged);
	m->imported_count = 0;
	m->charged = 0;
}

/* Where the context is gone the driver has closed it. */
static void opened_close_by_driver(const struct opened *m)
{
	if (context_push(m->key.context) != CUDA_SUCCESS)
		return;
	driver.cuIpcCloseMemHandle(m->by_driver);
	context_pop(m->key.context);
}

void opened_unmap(struct opened *m)
{
	if (m->by_driver)
		opened_close_by_driver(m);
	if (m->mapped)
		driver.cuMemUnmap(m->reserved, m->mapped);
	if (m->reserved)
		driver.cuMemAddressFree(m->reserved, m->bytes);
	opened_give_up_pieces(m, m->place.context.device);
	free(m->imported);
	free(m);
}

/* --- closing --- */

void opened_settle(void)
{
	while (postponed && !capture_is_active()) {
		struct opened *m = postponed;

		if (idle_is_refused(idle_wait(m->key.context)))
			return;
		postponed = m->next;
		opened_unmap(m);
	}
}

/*
 * Lets it go, once it has left the books: unmaps it, or postpones that where it cannot wait for who
 * uses it. The caller has its turn.
 */
static CUresult let_go(struct opened *m)
{
	CUresult result = CUDA_SUCCESS;
	bool waited = false;

	if (!capture_is_active()) {
		result = idle_wait(m->key.context);
		waited = !idle_is_refused(result);
	}
	if (waited) {
		opened_unmap(m);
		return result;
	}
	m->next = postponed;
	postponed = m;
	return CUDA_SUCCESS;
}

/* Closes it once. The caller has its turn. */
static CUresult close_one(struct opened *m)
{
	struct leaving leaving;

	if (m->opened == 1) {
		leave(m);
		return let_go(m);
	}
	m->opened--;
	leaving = context_leave_object(&side_type_ipc_mapping, m->place.base);
	side_left(&leaving, true);
	return CUDA_SUCCESS;
}

/*
 * Returns whether the driver opened a slab at this address for blocks of it: to the driver that is
 * open, to the program it is not.
 */
static bool opened_slab_begins_at(CUdeviceptr address)
{
	const struct opened *m;
	bool begins = false;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	opened_take_turn();
	for (m = by_key; m && !begins; m = m->hh.next)
		begins = m->by_driver && m->by_driver == address;
	opened_give_turn();
	pthread_setcancelstate(cancel, NULL);
	return begins;
}

bool ipc_close(CUdeviceptr address, CUresult (*native)(CUdeviceptr address), CUresult *result)
{
	struct ipc_place place;
	struct opened *m;
	int cancel;

	if (!ipc_find(address, &place) || place.base != address) {
		*result = CUDA_ERROR_INVALID_VALUE;
		return opened_slab_begins_at(address);
	}
	/* What the driver thinks of closing now, it says of any address; none is odd. */
	if (capture_is_active()) {
		*result = native(1);
		if (idle_is_refused(*result))
			return true;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	opened_take_turn();
	opened_settle();
	m = find_at(address);
	if (m)
		*result = close_one(m);
	opened_give_turn();
	pthread_setcancelstate(cancel, NULL);
	return m != NULL;
}

void ipc_forget_context(CUcontext context)
{
	struct opened *m, *next;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	opened_take_turn();
	HASH_ITER (hh, by_key, m, next) {
		/* cppcheck-suppress uninitvar ; the macro sets it */
		if (m->key.context != context)
			continue;
		leave(m);
		opened_unmap(m);
	}
	opened_give_turn();
	pthread_setcancelstate(cancel, NULL);
}
