/* SPDX-License-Identifier: MIT */
/*
 * Giving memory away: an allocation that is given comes to the device and stays there, and a thread
 * answers other processes that open it. Rules: runs inside the user's process.
 *
 * The thread starts with the first handle that is given away, needs no context and blocks every
 * signal. It waits for no peer: a reply fits its socket, and a peer without a request for long
 * gives its place to another. A descriptor that the program closed behind our back is not used any
 * more.
 *
 * It answers one request with one packet of at most 32 descriptors, so much memory needs few. Its
 * socket is a file in the state directory, no abstract name, so it is reached across network
 * namespaces; a path too long for a socket goes by /proc/self/fd.
 */
#include "core/modules/ipc/ipc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/budget/exported.h"
#include "core/budget/refusal.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/job/module.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/slab.h"
#include "core/memory/arena/small.h"

/*
 * Fills the reply, and its descriptors as far as the request asks for them; the server closes them.
 * On its thread.
 */
typedef void ipc_answer(const struct wire_request *request, struct wire_reply *reply,
                        int descriptors[WIRE_BATCH]);

enum { CONNECTIONS = 64, LOOK_MS = 1000, FULL_LOOK_MS = 50, REFUSED_LOOK_NS = 10000000 };
#define IDLE_NS 1000000000ull /* less than the patience of a process that waits for its place */

struct connection {
	int fd;
	uint64_t idle; /* until then it may be idle; longer, as long as no peer needs its place */
};

static struct {
	LOCK_OF(SERVER) lock; /* of starting */
	_Atomic bool started;
	ipc_answer *answer;
	struct wire_token token;
	int listener;

	/* the thread's */
	struct connection connection[CONNECTIONS];
	size_t count;
} server = {.lock = LOCK_FREE, .listener = -1};

static bool ipc_is_own(const struct wire_token *token)
{
	return atomic_load(&server.started) && memcmp(token, &server.token, sizeof(*token)) == 0;
}

static void close_ours(int fd)
{
	if (wire_is_socket_of(fd, &server.token))
		close(fd);
}

static void server_drop(size_t i)
{
	close_ours(server.connection[i].fd);
	server.connection[i] = server.connection[--server.count];
}

/*
 * Drops the connections that were idle for too long: a peer that connects and asks nothing takes no
 * place for good.
 */
static void drop_idle(void)
{
	uint64_t now = wire_deadline(0);

	for (size_t i = server.count; i-- > 0;) {
		if (server.connection[i].idle < now)
			server_drop(i);
	}
}

static void server_accept_all(void)
{
	int fd;

	if (server.count == CONNECTIONS)
		drop_idle();
	while (server.count < CONNECTIONS) {
		fd = wire_accept(server.listener);
		if (fd == -EAGAIN)
			return;
		if (fd >= 0) {
			server.connection[server.count++] =
			    (struct connection){fd, wire_deadline(IDLE_NS)};
		} else if (fd != -EPERM) { /* no descriptor left: not at once again */
			drop_idle();
			deadline_sleep(REFUSED_LOOK_NS);
			return;
		}
	}
}

static bool server_is_valid(const struct wire_request *request)
{
	return wire_handle_is_ours(&request->handle) && request->handle.version == WIRE_VERSION &&
	       ipc_is_own(&request->handle.token) && request->most <= WIRE_BATCH;
}

/*
 * Replies to a request. Too many descriptors may be under way between processes; then the reply is
 * WIRE_BUSY, and the other side asks again. Returns 0 or a negative errno.
 */
static int reply_to(int fd, const struct wire_request *request)
{
	int descriptors[WIRE_BATCH];
	struct wire_reply reply = {0};
	int error;

	server.answer(request, &reply, descriptors);
	error = wire_send(fd, &reply, sizeof(reply), descriptors, reply.count, 0);
	for (uint32_t i = 0; i < reply.count; i++)
		close(descriptors[i]);
	if (error != -ETOOMANYREFS)
		return error;
	reply = (struct wire_reply){.status = WIRE_BUSY};
	return wire_send(fd, &reply, sizeof(reply), NULL, 0, 0);
}

/* Serves a request of the connection. Returns false where the connection is of no use any more. */
static bool serve_one(struct connection *connection)
{
	struct wire_request request;
	int stray[1];
	size_t strays = 0;
	int error;

	if (!wire_is_socket_of(connection->fd, &server.token))
		return false;
	error = wire_receive(connection->fd, &request, sizeof(request), stray, 0, &strays, 0);
	if (error == -EAGAIN)
		return true;
	if (error || !server_is_valid(&request) || reply_to(connection->fd, &request) != 0)
		return false;
	connection->idle = wire_deadline(IDLE_NS);
	return true;
}

/* Programs close descriptors they do not know; the handles they gave away are to stay good. */
static void keep_listening(void)
{
	char message[512] = "";

	if (wire_is_socket_of(server.listener, &server.token))
		return;
	wire_unlink(&server.token);
	server.listener = wire_listen(&server.token, message, sizeof(message));
	if (server.listener < 0)
		log_once(LOG_WARNING, "memory cannot be shared with other processes: %s", message);
}

static void wait_for_any(void)
{
	bool is_full = server.count == CONNECTIONS;
	struct pollfd poller[CONNECTIONS + 1];

	for (size_t i = 0; i < server.count; i++)
		poller[i] = (struct pollfd){.fd = server.connection[i].fd, .events = POLLIN};
	/* -1 is passed over by poll. */
	poller[server.count] =
	    (struct pollfd){.fd = is_full ? -1 : server.listener, .events = POLLIN};
	/*
	 * Where it is refused (a container's profile) each is looked at all the same, now and then.
	 */
	if (poll(poller, server.count + 1, is_full ? FULL_LOOK_MS : LOOK_MS) < 0 && errno != EINTR)
		deadline_sleep(REFUSED_LOOK_NS);
}

static void *server_serve(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway");
	/* Its queries to the driver disturb no capture. */
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		keep_listening();
		wait_for_any();
		for (size_t i = server.count; i-- > 0;) {
			if (!serve_one(&server.connection[i]))
				server_drop(i);
		}
		if (wire_is_socket_of(server.listener, &server.token))
			server_accept_all();
	}
	return NULL;
}

/* Starts the server, with the lock held. Returns 0 or a negative errno, with a message. */
static int server_start(ipc_answer *answer, char *message, size_t size)
{
	int error = wire_token_make(&server.token);

	if (error) {
		snprintf(message, size, "no random numbers: %s", strerror(-error));
		return error;
	}
	wire_sweep();
	server.answer = answer;
	server.listener = wire_listen(&server.token, message, size);
	if (server.listener < 0)
		return server.listener;
	error = thread_start(server_serve);
	if (error) {
		snprintf(message, size, "no thread: %s", strerror(-error));
		wire_unlink(&server.token);
		close(server.listener);
		server.listener = -1;
		return error;
	}
	atomic_store(&server.started, true);
	return 0;
}

/*
 * Starts it, once; this process's token. 0 or a negative errno, message filled; then it is worth
 * another try. Thread-safe. Not to be called in a forked child.
 */
static int ipc_serve(ipc_answer *answer, struct wire_token *token, char *message, size_t size)
{
	int error = 0;

	lock_acquire(&server.lock);
	if (!atomic_load(&server.started))
		error = server_start(answer, message, size);
	*token = server.token;
	lock_release(&server.lock);
	return error;
}

/* Forgets the socket in a forked child: it is the parent's. Takes no lock. */
static void ipc_forked(void)
{
	if (!atomic_load(&server.started))
		return;
	close_ours(server.listener);
	for (size_t i = 0; i < server.count && i < CONNECTIONS; i++)
		close_ours(server.connection[i].fd);
	atomic_store(&server.started, false);
}

/* Takes the socket's name out of the state directory, when the process ends. */
static void ipc_stop(void)
{
	if (atomic_load(&server.started))
		wire_unlink(&server.token);
}

/*
 * What was given away, by the program's calls and on the server's thread. A request names memory
 * that was given away, and nothing else can be had.
 */

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

/* Finds the memory given under a number, with the lock held. */
static struct given *server_find(uint64_t number)
{
	struct given *given;

	HASH_FIND(hh, all, &number, sizeof(number), given);
	return given;
}

/* --- for importers: on the server's thread --- */

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
static void server_give(const struct given *given, const struct wire_request *request,
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

static void server_answer(const struct wire_request *request, struct wire_reply *reply,
                          int descriptors[WIRE_BATCH])
{
	const struct given *given;

	reply->status = WIRE_GONE;
	lock_acquire(&lock);
	given = server_find(request->handle.number);
	if (given && given->address == request->handle.address)
		server_give(given, request, reply, descriptors);
	lock_release(&lock);
}

/* --- the program's calls --- */

/*
 * Memory that is given away: of an arena, by now all on the device for good and exportable, or a
 * block of a slab of the driver's.
 */
struct ipc_gift {
	struct device *device;
	CUdeviceptr address; /* its first */
	size_t size;
	const CUipcMemHandle *of_slab; /* the driver's, of the slab; NULL: of an arena */
	uint64_t offset;               /* in the slab */
	_Atomic uint64_t
	    *number; /* its number, kept by the owner of the memory; 0: it was never given */
};

/*
 * Enters the given memory, with the lock held. Returns its number, or 0 where there is no memory.
 */
static uint64_t server_enter(const struct ipc_gift *gift)
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

/* Makes the handle of it, always the same one. MAP_FAILED: no memory can be given now. */
static CUresult ipc_give(const struct ipc_gift *gift, CUipcMemHandle *handle)
{
	struct wire_handle ours = wire_handle_new();
	char message[512] = "";

	if (ipc_serve(server_answer, &ours.token, message, sizeof(message)) != 0) {
		log_once(LOG_WARNING, "memory cannot be shared with other processes: %s", message);
		return CUDA_ERROR_MAP_FAILED;
	}
	lock_acquire(&lock);
	if (!*gift->number)
		*gift->number = server_enter(gift);
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

/*
 * Takes it back before the memory goes: no process may open it from now on, or is doing so when
 * this returns.
 */
static void ipc_withdraw(_Atomic uint64_t *number)
{
	struct given *given;

	if (!atomic_load_explicit(number, memory_order_relaxed))
		return;
	lock_acquire(&lock);
	given = server_find(*number);
	if (given)
		HASH_DEL(all, given);
	*number = 0;
	lock_release(&lock);
	free(given);
}

#define EXPORT_PATIENCE_NS 60000000000ull
#define EXPORT_LOOK_NS     10000000ull

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
static CUresult give_in_arena(struct allocation *a, CUipcMemHandle *handle)
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

static bool server_give_any(CUdeviceptr address, CUipcMemHandle *handle, CUresult *result)
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
			*result = give_in_arena(a, handle);
		else if (*result == CUDA_ERROR_OUT_OF_MEMORY)
			note_refused_gift(a);
		else
			*result = CUDA_ERROR_MAP_FAILED;
		pthread_setcancelstate(cancel, NULL);
	}
	resource_release(&a->resource);
	return is_ours;
}

static void ipc_start(bool *has_started)
{
	static struct ipc_calls calls = {.give = server_give_any, .withdraw = ipc_withdraw};

	(void)has_started;
	import_add_calls(&calls, ipc_is_own);
	atomic_store(&ipc_calls, &calls);
}

const struct module module_ipc = {.name = "ipc",
                                  .start = ipc_start,
                                  .stop = ipc_stop,
                                  .forked = ipc_forked,
                                  .left_context = ipc_forget_context};
