/*
 * Opening memory of other processes. Rules: runs inside the user's process, within its calls; what the other process
 * says is checked before it is used. A handle's physical memory is held by its mapping alone.
 */
#include "core/memory/ipc/ipc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/budget/exported.h"
#include "core/memory/arena/reach.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/room.h"
#include "core/memory/ipc/server.h"
#include "core/memory/uses/side.h"
#include "core/cuda/capture.h"

#define BYTES_MAX ((uint64_t)1 << 46) /* no device has as much */

enum { BUSY_MS = 5 };

/* What names it in this process; all bytes count. */
struct mapping_key {
	struct wire_token token;
	uint64_t number;
	CUcontext context;
};

struct mapping {
	struct mapping_key key;
	struct ipc_place place;
	uint64_t *imported; /* keys of its pieces, of those that the job is charged for */
	size_t imported_count;
	uint64_t charged; /* to this process: another job's */
	CUdeviceptr reserved;
	uint64_t bytes;  /* reserved */
	uint64_t mapped; /* of them, from the beginning */
	unsigned int opened;
	struct mapping *next; /* of the postponed */
	UT_hash_handle hh;
};

/*
 * Opening and closing, one at a time. A mark and no lock that is held: who has the turn may come to the gate, to make room for
 * what another job gives.
 */
static LOCK_OF(IMPORT_TURN) turn_lock = LOCK_FREE;
static pthread_cond_t turn_is_given = PTHREAD_COND_INITIALIZER;
static bool turn;
static struct mapping *by_key;    /* guarded by turn, as are the postponed: closed, but a capture */
static struct mapping *postponed; /* forbade to wait for who uses them */

static LOCK_OF(IMPORTS) tree_lock = LOCK_FREE;
static void *tree; /* by address, never overlapping; changed with turn held as well */
static _Atomic size_t tree_count;

/* --- the books --- */

static int by_range(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;

	if (x->place.base + x->place.size <= y->place.base)
		return -1;
	return x->place.base >= y->place.base + y->place.size;
}

/* With cancellation off. */
static void take_turn(void)
{
	lock_acquire(&turn_lock);
	while (turn)
		condition_wait(&turn_is_given, &turn_lock);
	turn = true;
	lock_release(&turn_lock);
}

static void give_turn(void)
{
	lock_acquire(&turn_lock);
	turn = false;
	pthread_cond_signal(&turn_is_given);
	lock_release(&turn_lock);
}

/* Good as long as the caller has its turn. */
static struct mapping *find_at(CUdeviceptr address)
{
	struct mapping key = {.place = {.base = address, .size = 1}};
	struct mapping **node;

	lock_acquire(&tree_lock);
	node = tfind(&key, &tree, by_range);
	lock_release(&tree_lock);
	return node ? *node : NULL;
}

bool ipc_find(CUdeviceptr address, struct ipc_place *place)
{
	struct mapping key = {.place = {.base = address, .size = 1}};
	struct mapping **node;

	if (!atomic_load_explicit(&tree_count, memory_order_relaxed))
		return false;
	lock_acquire(&tree_lock);
	node = tfind(&key, &tree, by_range);
	if (node)
		*place = (*node)->place;
	lock_release(&tree_lock);
	return node != NULL;
}

static bool enter(struct mapping *m)
{
	struct mapping **node;

	HASH_ADD(hh, by_key, key, sizeof(m->key), m);
	if (!m->hh.tbl)
		return false;
	lock_acquire(&tree_lock);
	node = tsearch(m, &tree, by_range);
	if (node && *node == m)
		tree_count++;
	lock_release(&tree_lock);
	if (node && *node == m)
		return true;
	HASH_DEL(by_key, m);
	return false;
}

static void leave(struct mapping *m)
{
	struct leaving leaving;

	HASH_DEL(by_key, m);
	lock_acquire(&tree_lock);
	tdelete(m, &tree, by_range);
	tree_count--;
	lock_release(&tree_lock);
	for (; m->opened > 0; m->opened--) {
		leaving = side_leave(&side_type_ipc_mapping, m->place.base);
		side_left(&leaving, true);
	}
}

/* --- the mapping --- */

/* Its pieces were charged on this device, or are the job's. */
static void give_up_pieces(struct mapping *m, struct device *device)
{
	for (size_t i = 0; i < m->imported_count; i++)
		imported_leave(device, m->imported[i]);
	device_count_elsewhere(device, -(int64_t)m->charged);
	if (m->charged)
		device_uncharge(device, SEGMENT_ON_DEVICE, m->charged);
	m->imported_count = 0;
	m->charged = 0;
}

static void unmap(struct mapping *m)
{
	if (m->mapped)
		driver.cuMemUnmap(m->reserved, m->mapped);
	if (m->reserved)
		driver.cuMemAddressFree(m->reserved, m->bytes);
	give_up_pieces(m, m->place.context.device);
	free(m->imported);
	free(m);
}

/* Which device has it the driver knows. */
static void note_device(struct mapping *m, CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = {0};
	struct device *device = NULL;

	if (driver.cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS &&
	    prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = context_device(prop.location.id);
	if (device)
		m->place.context.device = device;
}

/* Room for one key more. */
static bool can_note_import(struct mapping *m)
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

/* The job has it already, or is charged for it now. */
static CUresult take_piece(struct mapping *m, int descriptor, uint64_t size)
{
	struct device *device = m->place.context.device;
	struct import import = {0};
	struct deadline until;
	char text[32];

	if (!can_note_import(m))
		return CUDA_ERROR_OUT_OF_MEMORY;
	import = imported_read(device, descriptor);
	if (import.key) {
		m->imported[m->imported_count++] = import.key;
		return CUDA_SUCCESS;
	}
	until = room_deadline(device, true);
	if (room_charge_for_good(device, size, &until) == 0) {
		m->charged += size;
		device_count_elsewhere(device, (int64_t)size);
		return CUDA_SUCCESS;
	}
	log_once(LOG_WARNING,
	         "gpu %d: %s of another job cannot be opened (cuIpcOpenMemHandle): within "
	         "memory_limit there is no room for it",
	         device->id.ordinal, units_format_size(m->bytes, text, sizeof(text)));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult map_piece(struct mapping *m, int descriptor, uint64_t size)
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
		give_up_pieces(m, device);
		result = take_piece(m, descriptor, size);
	}
	if (result == CUDA_SUCCESS)
		result = driver.cuMemMap(m->reserved + m->mapped, size, 0, handle, 0);
	driver.cuMemRelease(handle);
	if (result == CUDA_SUCCESS)
		m->mapped += size;
	return result;
}

/* For the device it is opened on; for those that reach that one's memory, and for its own, where the hardware can. */
static CUresult allow_access(const struct mapping *m, struct device *device)
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
                         const struct mapping *m, size_t received)
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

static CUresult reserve(struct mapping *m, const struct wire_reply *reply)
{
	CUresult result = driver.cuMemAddressReserve(&m->reserved, reply->bytes, 0, 0, 0);

	if (result != CUDA_SUCCESS)
		return result;
	m->bytes = reply->bytes;
	m->place.base = m->reserved + reply->offset;
	return CUDA_SUCCESS;
}

/* One request and what it brings. CUDA_SUCCESS: *reply is good, though it may say WIRE_BUSY. */
static CUresult fetch_some(int fd, struct wire_request *request, struct mapping *m,
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
	if (reply->status != WIRE_BUSY &&
	    (reply->status != WIRE_OK || !is_plausible(reply, request, m, received)))
		result = CUDA_ERROR_MAP_FAILED;
	else if (reply->status == WIRE_OK && !m->bytes)
		result = reserve(m, reply);
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

static CUresult fetch_all(int fd, struct wire_request *request, struct mapping *m)
{
	uint64_t deadline = wire_deadline(WIRE_PATIENCE_NS);

	for (;;) {
		struct wire_reply reply;
		CUresult result = fetch_some(fd, request, m, &reply);

		if (result != CUDA_SUCCESS)
			return result;
		if (m->bytes && m->mapped == m->bytes)
			return CUDA_SUCCESS;
		if (reply.status == WIRE_OK) {
			deadline = wire_deadline(WIRE_PATIENCE_NS);
			continue;
		}
		if (wire_deadline(0) > deadline)
			return CUDA_ERROR_MAP_FAILED;
		poll(NULL, 0, BUSY_MS);
	}
}

static CUresult fetch(const struct wire_handle *handle, struct mapping *m)
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
	return result == CUDA_SUCCESS ? allow_access(m, device) : result;
}

/* --- what the program calls --- */

/* With its turn. */
static void settle(void)
{
	while (postponed && !capture_is_active()) {
		struct mapping *m = postponed;

		if (quiet_is_refused(quiet_wait(m->key.context)))
			return;
		postponed = m->next;
		unmap(m);
	}
}

bool ipc_is_ours(const CUipcMemHandle *handle)
{
	return wire_handle_is_ours(handle);
}

/* What cuIpcOpenMemHandle may answer. */
static CUresult answerable(CUresult result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
	               result == CUDA_ERROR_INVALID_DEVICE
	           ? result
	           : CUDA_ERROR_MAP_FAILED;
}

static CUresult open_new(const struct mapping_key *key, const struct context *context,
                         const struct wire_handle *handle, struct mapping **opened)
{
	struct mapping *m = calloc(1, sizeof(*m));
	CUresult result;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->key = *key;
	m->place.context = *context;
	m->place.size = handle->size;
	result = fetch(handle, m);
	if (result == CUDA_SUCCESS && !enter(m))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		unmap(m);
		return answerable(result);
	}
	*opened = m;
	return CUDA_SUCCESS;
}

/* With its turn. */
static CUresult open_one(const struct context *context, const struct wire_handle *handle,
                         CUdeviceptr *address)
{
	struct mapping_key key;
	struct mapping *m;
	CUresult result;

	memset(&key, 0, sizeof(key)); /* padding is part of the key */
	key.token = handle->token;
	key.number = handle->number;
	key.context = context->handle;
	HASH_FIND(hh, by_key, &key, sizeof(key), m);
	if (!m) {
		result = open_new(&key, context, handle, &m);
		if (result != CUDA_SUCCESS)
			return result;
	}
	m->opened++;
	side_enter(&side_type_ipc_mapping, context, m->place.base, m->place.size, 0);
	*address = m->place.base;
	return CUDA_SUCCESS;
}

CUresult ipc_open(const struct context *context, const CUipcMemHandle *bytes, unsigned int flags,
                  CUdeviceptr *address)
{
	struct wire_handle handle;
	CUresult result;
	int cancel;

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
	if (ipc_is_own(&handle.token))
		return CUDA_ERROR_INVALID_CONTEXT;
	/* It waits for others, and the program does not expect to be cancelled here. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	take_turn();
	settle();
	result = open_one(context, &handle, address);
	give_turn();
	pthread_setcancelstate(cancel, NULL);
	return result;
}

/* With its turn, once it has left the books. */
static CUresult let_go(struct mapping *m)
{
	CUresult result = CUDA_SUCCESS;
	bool waited = false;

	if (!capture_is_active()) {
		result = quiet_wait(m->key.context);
		waited = !quiet_is_refused(result);
	}
	if (waited) {
		unmap(m);
		return result;
	}
	m->next = postponed;
	postponed = m;
	return CUDA_SUCCESS;
}

/* With its turn. */
static CUresult close_one(struct mapping *m)
{
	struct leaving leaving;

	if (m->opened == 1) {
		leave(m);
		return let_go(m);
	}
	m->opened--;
	leaving = side_leave(&side_type_ipc_mapping, m->place.base);
	side_left(&leaving, true);
	return CUDA_SUCCESS;
}

bool ipc_close(CUdeviceptr address, CUresult (*native)(CUdeviceptr address), CUresult *result)
{
	struct ipc_place place;
	struct mapping *m;
	int cancel;

	if (!ipc_find(address, &place) || place.base != address)
		return false;
	/* What the driver thinks of closing now, it says of any address; none is odd. */
	if (capture_is_active()) {
		*result = native(1);
		if (quiet_is_refused(*result))
			return true;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	take_turn();
	settle();
	m = find_at(address);
	if (m)
		*result = close_one(m);
	give_turn();
	pthread_setcancelstate(cancel, NULL);
	return m != NULL;
}

void ipc_forget_context(CUcontext context)
{
	struct mapping *m, *next;
	int cancel;

	if (!atomic_load_explicit(&tree_count, memory_order_relaxed))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	take_turn();
	HASH_ITER (hh, by_key, m, next) {
		/* cppcheck-suppress uninitvar ; the macro sets it */
		if (m->key.context != context)
			continue;
		leave(m);
		unmap(m);
	}
	give_turn();
	pthread_setcancelstate(cancel, NULL);
}
