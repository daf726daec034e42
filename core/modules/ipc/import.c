/* SPDX-License-Identifier: MIT */
/*
 * Opening memory of other processes. Rules: runs inside the user's process, within its calls; what
 * the other process says is checked before it is used. A handle's physical memory is held by its
 * mapping alone.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/address_map.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/budget/exported.h"
#include "core/budget/refusal.h"
#include "core/cuda/capture.h"
#include "core/cuda/idle.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/uses/counted.h"

/*
 * Memory of other processes that this one has open: by its name, and by its address. All of it
 * belongs to the opener.
 */

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/modules/ipc/ipc.h"
#include "core/wire/wire.h"

/* Room that another job's memory lacks within the limit; device NULL: none. */
struct ipc_lack {
	struct device *device;
	uint64_t bytes;
};

/* Its name in this process; all bytes count. */
struct opened_key {
	struct wire_token token;
	uint64_t number;
	CUcontext context;
};

struct opened {
	struct opened_key key;
	struct ipc_place place;
	uint64_t *imported; /* keys of its pieces, of those that the job is charged for */
	size_t imported_count;
	uint64_t charged;      /* to this process: another job's */
	bool lacks_room;       /* the limit has none for one of its pieces */
	CUdeviceptr by_driver; /* the driver's mapping; 0: it is mapped by us, as follows */
	CUdeviceptr reserved;
	uint64_t bytes;  /* reserved, or the driver's */
	uint64_t mapped; /* of them, from the beginning */
	unsigned int opened;
	struct opened *next; /* of the postponed */
	UT_hash_handle hh;
};

/*
 * One thread at a time opens or closes: the opener. A mark names it and no lock, because the opener
 * may enter the gate to make room for memory of another job.
 */
static LOCK_OF(LEAF) opener_lock = LOCK_FREE;
static pthread_cond_t opener_has_left = PTHREAD_COND_INITIALIZER;
static bool has_opener;
static struct opened *by_key;    /* the opener's, as is `postponed` */
static struct opened *postponed; /* closed while a capture forbade to wait for their users */

/* Becomes the opener, once no other thread is it; with cancellation off. */
static void opener_begin(void)
{
	lock_acquire(&opener_lock);
	while (has_opener)
		condition_wait(&opener_has_left, &opener_lock);
	has_opener = true;
	lock_release(&opener_lock);
}

static void opener_end(void)
{
	lock_acquire(&opener_lock);
	has_opener = false;
	pthread_cond_signal(&opener_has_left);
	lock_release(&opener_lock);
}

/*
 * Finds what is opened at an address, or returns NULL. The answer is good as long as the caller is
 * the opener.
 */
static struct opened *import_find_at(CUdeviceptr address)
{
	struct address_range found;

	return address_map_find(address, &found) && found.kind == ADDRESS_OF_IMPORT ? found.owner
	                                                                            : NULL;
}

/* Copies where it is, for threads that are not the opener. */
static bool copy_place(void *owner, void *place)
{
	*(struct ipc_place *)place = ((const struct opened *)owner)->place;
	return true;
}

static bool ipc_find(CUdeviceptr address, struct ipc_place *place)
{
	return address_map_hold(address, 1, ADDRESS_OF_IMPORT, copy_place, place);
}

/* Returns whether there was memory for it. */
static bool opened_enter(struct opened *m)
{
	const struct address_range range = {m->place.base, m->place.size, m, ADDRESS_OF_IMPORT};

	HASH_ADD(hh, by_key, key, sizeof(m->key), m);
	if (m->hh.tbl && address_map_add(&range) == 0)
		return true;
	if (m->hh.tbl)
		HASH_DEL(by_key, m);
	return false;
}

static void import_leave(struct opened *m)
{
	struct leaving leaving;

	HASH_DEL(by_key, m);
	address_map_remove(m->place.base, m);
	for (; m->opened > 0; m->opened--) {
		leaving = context_leave_object(&counted_type_ipc_mapping, m->place.base);
		counted_left(&leaving, true);
	}
}

static struct opened *opened_by_key(const struct opened_key *key)
{
	struct opened *m;

	HASH_FIND(hh, by_key, key, sizeof(*key), m);
	return m;
}

/* Gives up what was charged on this device for its pieces, or is the job's. */
static void opened_give_up_pieces(struct opened *m, struct device *device)
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

/* Unmaps what is mapped of one that is in no books, and frees it. */
static void opened_unmap(struct opened *m)
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

/* Unmaps the postponed memory. */
static void opened_settle(void)
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
 * Lets memory go that has left the books: unmaps it, or postpones that where it cannot wait for the
 * work that uses it. The caller is the opener.
 */
static CUresult import_let_go(struct opened *m)
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

/* Closes it once. The caller is the opener. */
static CUresult close_one(struct opened *m)
{
	struct leaving leaving;

	if (m->opened == 1) {
		import_leave(m);
		return import_let_go(m);
	}
	m->opened--;
	leaving = context_leave_object(&counted_type_ipc_mapping, m->place.base);
	counted_left(&leaving, true);
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
	opener_begin();
	for (m = by_key; m && !begins; m = m->hh.next)
		begins = m->by_driver && m->by_driver == address;
	opener_end();
	pthread_setcancelstate(cancel, NULL);
	return begins;
}

static bool ipc_close(CUdeviceptr address, CUresult (*native)(CUdeviceptr address),
                      CUresult *result)
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
	opener_begin();
	opened_settle();
	m = import_find_at(address);
	if (m)
		*result = close_one(m);
	opener_end();
	pthread_setcancelstate(cancel, NULL);
	return m != NULL;
}

void ipc_forget_context(CUcontext context)
{
	struct opened *m, *next;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	opener_begin();
	HASH_ITER (hh, by_key, m, next) {
		/* cppcheck-suppress uninitvar ; the macro sets it */
		if (m->key.context != context)
			continue;
		import_leave(m);
		opened_unmap(m);
	}
	opener_end();
	pthread_setcancelstate(cancel, NULL);
}

#define BYTES_MAX ((uint64_t)1 << 46) /* no device has as much */

enum { BUSY_NS = 5000000 };

/* --- pieces --- */

/* Asks the driver which device has it. */
static void note_device(struct opened *m, CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = {0};
	struct device *device = NULL;

	if (driver.cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS &&
	    prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = context_device(prop.location.id);
	if (device)
		m->place.context.device = device;
}

/* Makes room for one key more. Returns whether there is room. */
static bool can_note_import(struct opened *m)
{
	size_t count = m->imported_count;
	uint64_t *keys = m->imported;

	if (count & (count - 1) || count == 1)
		return true; /* 1, 2, 4, ... were had */
	keys = realloc(keys, (count ? 2 * count : 2) * sizeof(*keys));
	if (keys)
		m->imported = keys;
	return keys;
}

/* Has it charged to this process, unless the job has it already. There is room for its key. */
static CUresult import_take(struct opened *m, const struct import *import, uint64_t size)
{
	struct device *device = m->place.context.device;

	if (import->key) {
		m->imported[m->imported_count++] = import->key;
		return CUDA_SUCCESS;
	}
	if (device_charge(device, size) != 0) {
		m->lacks_room = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->charged += size;
	device_count_elsewhere(device, (int64_t)size);
	return CUDA_SUCCESS;
}

static CUresult take_piece(struct opened *m, int descriptor, uint64_t size)
{
	struct import import;

	if (!can_note_import(m))
		return CUDA_ERROR_OUT_OF_MEMORY;
	import = imported_read(m->place.context.device, descriptor);
	return import_take(m, &import, size);
}

static CUresult map_piece(struct opened *m, int descriptor, uint64_t size)
{
	struct device *device = m->place.context.device;
	CUmemGenericAllocationHandle handle;
	CUresult result = take_piece(m, descriptor, size);

	/* Charged first: once it is imported the driver counts it as this process's. */
	if (result == CUDA_SUCCESS)
		result =
		    driver.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)descriptor,
		                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (result != CUDA_SUCCESS)
		return result;
	if (!m->mapped)
		note_device(m, handle);
	if (m->place.context.device != device) { /* another than it is opened on has it */
		opened_give_up_pieces(m, device);
		result = take_piece(m, descriptor, size);
	}
	if (result == CUDA_SUCCESS)
		result = driver.cuMemMap(m->reserved + m->mapped, size, 0, handle, 0);
	driver.cuMemRelease(handle);
	if (result == CUDA_SUCCESS)
		m->mapped += size;
	return result;
}

/*
 * Gives the right to the device it is opened on; to those that reach that one's memory, and to its
 * own, where the hardware can.
 */
static CUresult allow_access(const struct opened *m, struct device *device)
{
	CUmemAccessDesc access[DEVICE_MAX];
	size_t count = reach_rights(device, access);
	CUresult result = driver.cuMemSetAccess(m->reserved, m->bytes, &access[0], 1);

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 1; i < count; i++)
		driver.cuMemSetAccess(m->reserved, m->bytes, &access[i], 1);
	if (m->place.context.device != device) {
		access[0].location.id = m->place.context.device->handle;
		driver.cuMemSetAccess(m->reserved, m->bytes, &access[0], 1);
	}
	return CUDA_SUCCESS;
}

/* --- the conversation --- */

static bool is_plausible(const struct wire_reply *reply, const struct wire_request *request,
                         const struct opened *m, size_t received)
{
	uint64_t left = m->bytes - m->mapped;

	if (reply->first != request->first || reply->count < 1 || reply->count > request->most ||
	    reply->first >= reply->total || reply->count > reply->total - reply->first ||
	    received < 1 || received > reply->count || reply->bytes > BYTES_MAX)
		return false;
	if (!m->bytes) /* the first */
		left = reply->bytes;
	else if (reply->bytes != m->bytes)
		return false;
	if (reply->offset > reply->bytes || request->handle.size > reply->bytes - reply->offset)
		return false;
	for (uint32_t i = 0; i < reply->count; i++) {
		if (!reply->size[i] || reply->size[i] > left)
			return false;
		left -= reply->size[i];
	}
	/* The last one leaves nothing, any other something. */
	return (left == 0) == (reply->first + reply->count == reply->total);
}

static CUresult import_reserve(struct opened *m, const struct wire_reply *reply)
{
	CUresult result = driver.cuMemAddressReserve(&m->reserved, reply->bytes, 0, 0, 0);

	if (result != CUDA_SUCCESS)
		return result;
	m->bytes = reply->bytes;
	m->place.base = m->reserved + reply->offset;
	return CUDA_SUCCESS;
}

/*
 * Opens the memory around it by the driver's own handle. Opened once more by the driver, for
 * another block of the same slab, it is at the same address.
 */
static CUresult import_by_driver(struct opened *m, const struct wire_request *request,
                                 const struct wire_reply *reply)
{
	uint64_t wanted = request->handle.size;
	struct import import;
	CUipcMemHandle handle;
	CUdeviceptr base;
	CUresult result;
	size_t size = 0;

	if (m->bytes || reply->bytes > BYTES_MAX || reply->offset > reply->bytes ||
	    wanted > reply->bytes - reply->offset)
		return CUDA_ERROR_MAP_FAILED;
	if (!can_note_import(m))
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(&handle, reply->driver_s, sizeof(handle));
	m->bytes = reply->bytes;
	import = imported_read_name(m->place.context.device, &handle, sizeof(handle));
	result = import_take(m, &import, m->bytes);
	if (result == CUDA_SUCCESS)
		result =
		    driver.cuIpcOpenMemHandle_v2(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result != CUDA_SUCCESS)
		return result;
	m->by_driver = base;
	m->place.base = base + reply->offset;
	result = driver.cuMemGetAddressRange_v2(&base, &size, m->by_driver);
	return result == CUDA_SUCCESS && size >= m->bytes ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

/*
 * Makes one request and takes what it brings. Where it returns CUDA_SUCCESS, *reply is good, though
 * it may say WIRE_BUSY.
 */
static CUresult fetch_some(int fd, struct wire_request *request, struct opened *m,
                           struct wire_reply *reply)
{
	uint64_t deadline = wire_deadline(WIRE_PATIENCE_NS);
	int descriptors[WIRE_BATCH];
	size_t received = 0;
	CUresult result = CUDA_SUCCESS;

	if (wire_send(fd, request, sizeof(*request), NULL, 0, deadline) != 0 ||
	    wire_receive(fd, reply, sizeof(*reply), descriptors, WIRE_BATCH, &received, deadline) !=
	        0)
		return CUDA_ERROR_MAP_FAILED;
	if (reply->status == WIRE_DRIVER_S)
		result = import_by_driver(m, request, reply);
	else if (reply->status != WIRE_BUSY &&
	         (reply->status != WIRE_OK || !is_plausible(reply, request, m, received)))
		result = CUDA_ERROR_MAP_FAILED;
	else if (reply->status == WIRE_OK && !m->bytes)
		result = import_reserve(m, reply);
	/* Those that did not get through, for want of descriptors here, are asked for again. */
	for (size_t i = 0; i < received; i++) {
		if (result == CUDA_SUCCESS && reply->status == WIRE_OK) {
			result = map_piece(m, descriptors[i], reply->size[i]);
			request->first += result == CUDA_SUCCESS;
		}
		close(descriptors[i]);
	}
	return result;
}

static CUresult fetch_all(int fd, struct wire_request *request, struct opened *m)
{
	struct deadline until = DEADLINE_IN(WIRE_PATIENCE_NS);

	for (;;) {
		struct wire_reply reply;
		CUresult result = fetch_some(fd, request, m, &reply);

		if (result != CUDA_SUCCESS)
			return result;
		if (m->by_driver || (m->bytes && m->mapped == m->bytes))
			return CUDA_SUCCESS;
		if (reply.status == WIRE_OK)
			until = DEADLINE_IN(WIRE_PATIENCE_NS);
		else if (!deadline_nap(&until, BUSY_NS))
			return CUDA_ERROR_MAP_FAILED;
	}
}

static CUresult fetch(const struct wire_handle *handle, struct opened *m)
{
	struct wire_request request = {.handle = *handle, .most = WIRE_BATCH};
	struct device *device = m->place.context.device;
	int fd = wire_connect(&handle->token, wire_deadline(WIRE_PATIENCE_NS));
	CUresult result;

	if (fd < 0) {
		log_once(
		    LOG_WARNING,
		    "memory of process %d cannot be opened (%s): it has ended, or it is another "
		    "user's or has another state directory",
		    handle->pid, strerror(-fd));
		return CUDA_ERROR_MAP_FAILED;
	}
	result = fetch_all(fd, &request, m);
	close(fd);
	return result == CUDA_SUCCESS && !m->by_driver ? allow_access(m, device) : result;
}

/* --- what the program calls --- */

/* Returns whether a handle is of this process. */
static bool (*import_is_own)(const struct wire_token *token);

static bool ipc_is_ours(const CUipcMemHandle *handle)
{
	return wire_handle_is_ours(handle);
}

/* Returns what cuIpcOpenMemHandle may answer instead. */
static CUresult answerable(CUresult result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
	               result == CUDA_ERROR_INVALID_DEVICE
	           ? result
	           : CUDA_ERROR_MAP_FAILED;
}

static CUresult import_open_new(const struct opened_key *key, const struct context *context,
                                const struct wire_handle *handle, struct opened **opened,
                                struct ipc_lack *lack)
{
	struct opened *m = calloc(1, sizeof(*m));
	CUresult result;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->key = *key;
	m->place.context = *context;
	m->place.size = handle->size;
	result = fetch(handle, m);
	if (result == CUDA_SUCCESS && !opened_enter(m))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		if (m->lacks_room)
			*lack = (struct ipc_lack){m->place.context.device, m->bytes};
		opened_unmap(m);
		return answerable(result);
	}
	*opened = m;
	return CUDA_SUCCESS;
}

/* Opens a handle, once more where it is open already. The caller is the opener. */
static CUresult open_one(const struct context *context, const struct wire_handle *handle,
                         CUdeviceptr *address, struct ipc_lack *lack)
{
	struct opened_key key;
	struct opened *m;
	CUresult result;

	memset(&key, 0, sizeof(key)); /* padding is part of the key */
	key.token = handle->token;
	key.number = handle->number;
	key.context = context->handle;
	m = opened_by_key(&key);
	if (!m) {
		result = import_open_new(&key, context, handle, &m, lack);
		if (result != CUDA_SUCCESS)
			return result;
	}
	m->opened++;
	counted_enter(&counted_type_ipc_mapping, context, m->place.base, m->place.size, 0);
	*address = m->place.base;
	return CUDA_SUCCESS;
}

/*
 * Maps it for the current context; once more in the same context is the same address, counted.
 * MAP_FAILED: the process that gave it has freed it, is gone, does not answer, or is another user's
 * or state directory's; INVALID_CONTEXT: it is this process's own; OUT_OF_MEMORY with *lack:
 * nothing is left of it, and it may be tried again; else the driver's answer.
 */
static CUresult ipc_open(const struct context *context, const CUipcMemHandle *bytes,
                         unsigned int flags, CUdeviceptr *address, struct ipc_lack *lack)
{
	struct wire_handle handle;
	CUresult result;
	int cancel;

	*lack = (struct ipc_lack){0};
	memcpy(&handle, bytes, sizeof(handle));
	if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !handle.size || handle.zero)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.version != WIRE_VERSION) {
		log_once(
		    LOG_WARNING,
		    "memory of process %d cannot be opened: it runs another version of Spillway",
		    handle.pid);
		return CUDA_ERROR_MAP_FAILED;
	}
	if (import_is_own(&handle.token))
		return CUDA_ERROR_INVALID_CONTEXT;
	/* It waits for others, and the program does not expect to be cancelled here. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	opener_begin();
	opened_settle();
	result = open_one(context, &handle, address, lack);
	opener_end();
	pthread_setcancelstate(cancel, NULL);
	return result;
}

/* lack->device: NULL where no room was lacking, but memory of the process. */
static void note_refused_opening(const struct context *context, const struct ipc_lack *lack)
{
	struct refused refused = {REFUSED_PROCESS, lack->bytes, 0, REFUSED_NO_LIMIT};

	if (lack->device)
		refused = refusal_of_unmovable(lack->device, lack->bytes);
	refusal_note(lack->device ? lack->device : context->device, REFUSED_IMPORT, &refused);
}

/* Makes room for the memory to open, on the device that the first answer of its owner names. */
static bool import_make_room(struct reclaim *r, struct terms *terms, struct deadline *until,
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

static CUresult import_open(const struct context *context, const CUipcMemHandle *handle,
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
	       import_make_room(&request, &terms, &until, &lack));
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		note_refused_opening(context, &lack);
	pthread_setcancelstate(cancel, NULL);
	return result;
}

void import_add_calls(struct ipc_calls *calls, bool (*is_own)(const struct wire_token *token))
{
	import_is_own = is_own;
	calls->is_ours = ipc_is_ours;
	calls->open = import_open;
	calls->close = ipc_close;
	calls->find = ipc_find;
}
