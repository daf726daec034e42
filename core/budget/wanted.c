/* SPDX-License-Identifier: MIT */
/*
 * The mailbox of the mover. Rules: runs inside the user's process, within its calls; errno is kept.
 */
#include "core/budget/wanted.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/budget/shortage.h"
#include "core/cuda/capture.h"

static struct {
	LOCK_OF(LEAF) lock;
	pthread_cond_t changed; /* for the thread that empties it */
	pthread_cond_t done;    /* for the asking threads */
	void (*opened)(void);   /* to be called by wanted_open(); NULL: nothing */
	void *(*serve)(void *); /* NULL: no thread empties it */
	bool started;
	_Atomic bool closed; /* looked at without the lock too */
	bool woken;          /* something changed since it was emptied last */
	struct wanted_request *requests;
	_Atomic bool is_asked; /* there are some; looked at without the lock too */
} box = {.lock = LOCK_FREE};

static _Atomic bool open_devices[DEVICE_MAX], has_come[DEVICE_MAX];

/* --- the asking threads --- */

void wanted_open(const struct device *device)
{
	atomic_store_explicit(&open_devices[device->id.ordinal], true, memory_order_release);
	if (box.opened)
		box.opened();
}

static bool wanted_is_open(const struct device *device)
{
	return atomic_load_explicit(&open_devices[device->id.ordinal], memory_order_acquire);
}

/* Starts the thread that empties the mailbox; with the lock held. Returns whether it runs. */
static bool wanted_start(void)
{
	if (box.started || box.closed || !box.serve)
		return box.started;
	condition_init(&box.changed);
	condition_init(&box.done);
	box.started = thread_start(box.serve) == 0;
	if (!box.started)
		log_once(LOG_WARNING,
		         "memory in use does not move: no thread for it could be started");
	return box.started;
}

void wanted_wake(const struct device *device)
{
	int saved = errno;

	if (!wanted_is_open(device))
		return;
	lock_acquire(&box.lock);
	if (wanted_start() && !box.woken) {
		box.woken = true;
		pthread_cond_signal(&box.changed);
	}
	lock_release(&box.lock);
	errno = saved;
}

void wanted_fill(const struct device *device)
{
	atomic_store(&has_come[device->id.ordinal], true);
	wanted_wake(device);
}

/* Enters a request as the last; with the lock held. */
static void wanted_enter(struct wanted_request *r)
{
	struct wanted_request **last = &box.requests;

	while (*last)
		last = &(*last)->next;
	*last = r;
	box.is_asked = true;
}

/*
 * Takes a request out of the mailbox; with the lock held. Returns whether it was still waiting
 * there.
 */
static bool withdraw(struct wanted_request *r)
{
	struct wanted_request **place = &box.requests;

	while (*place && *place != r)
		place = &(*place)->next;
	if (!*place)
		return false;
	*place = r->next;
	box.is_asked = box.requests != NULL;
	return true;
}

/* Enters a request and waits for the answer; with the lock held and cancellation off. */
static CUresult wanted_wait_for_answer(struct wanted_request *r, struct deadline *deadline)
{
	bool in_time = true;

	if (!wanted_start() || box.closed)
		return CUDA_ERROR_NOT_READY;
	wanted_enter(r);
	pthread_cond_signal(&box.changed);
	while (!r->is_done && in_time)
		in_time = condition_wait_until(&box.done, &box.lock, deadline_ends(deadline));
	if (withdraw(r)) /* not even begun */
		return CUDA_ERROR_NOT_READY;
	/* The mover uses the request by now; it ends, because all its waits are bounded. */
	while (!r->is_done)
		condition_wait(&box.done, &box.lock);
	return r->result;
}

static CUresult wanted_ask(struct wanted_request *r, struct deadline *deadline)
{
	int saved = errno, cancel;
	CUresult result;

	if (!wanted_is_open(r->device) || capture_is_active())
		return CUDA_ERROR_NOT_READY;
	/*
	 * The mover has the request, and no call of the driver is where a thread expects to be
	 * cancelled.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_acquire(&box.lock);
	result = wanted_wait_for_answer(r, deadline);
	lock_release(&box.lock);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return result;
}

bool wanted_room(struct device *device, uint64_t bytes, struct deadline *until)
{
	struct wanted_request r = {.device = device, .room = bytes};

	return wanted_ask(&r, until) == CUDA_SUCCESS;
}

CUresult wanted_pin(struct device *device, CUdeviceptr address, bool is_exportable,
                    struct deadline *until)
{
	const struct wanted_request pin = {
	    .device = device, .pin = address, .is_exportable = is_exportable};
	struct wanted_request r = pin;
	CUresult result = wanted_ask(&r, until);

	if (result != CUDA_ERROR_OUT_OF_MEMORY || !shortage_claim(device, r.room, false, until))
		return result;
	r = pin;
	return wanted_ask(&r, until);
}

/* --- the thread that empties it --- */

void wanted_serve(void *(*serve)(void *), void (*opened)(void))
{
	lock_acquire(&box.lock);
	box.serve = serve;
	box.opened = opened;
	lock_release(&box.lock);
}

struct wanted_request *wanted_take(void)
{
	struct wanted_request *r;

	lock_acquire(&box.lock);
	r = box.requests;
	if (r)
		box.requests = r->next;
	box.is_asked = box.requests != NULL;
	lock_release(&box.lock);
	return r;
}

bool wanted_takes_fill(const struct device *device)
{
	return atomic_exchange(&has_come[device->id.ordinal], false);
}

bool wanted_has_fill(const struct device *device)
{
	return atomic_load(&has_come[device->id.ordinal]);
}

bool wanted_is_asked(void)
{
	return box.is_asked;
}

void wanted_answer(struct wanted_request *r, CUresult result)
{
	lock_acquire(&box.lock);
	r->result = result;
	r->is_done = true;
	pthread_cond_broadcast(&box.done);
	lock_release(&box.lock);
}

void wanted_sleep(uint64_t until_ns)
{
	lock_acquire(&box.lock);
	while (!box.woken && !box.requests && !box.closed &&
	       condition_wait_until(&box.changed, &box.lock, until_ns))
		;
	box.woken = false;
	lock_release(&box.lock);
}

void wanted_close(void)
{
	box.closed = true;
}

bool wanted_is_closed(void)
{
	return box.closed;
}
