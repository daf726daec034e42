/* Contexts. Rules: runs inside the user's process; changes no current context. */
#include "core/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/registry/object.h"

static pthread_rwlock_t contexts_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct context *contexts;
static size_t context_count, context_room;
static unsigned int contexts_seen;
static struct device_set *devices;
static _Atomic unsigned int generation;

void context_start(struct device_set *set)
{
	pthread_rwlock_wrlock(&contexts_lock);
	devices = set;
	context_count = 0;
	pthread_rwlock_unlock(&contexts_lock);
}

bool context_find(CUcontext handle, struct context *context)
{
	bool found = false;

	pthread_rwlock_rdlock(&contexts_lock);
	for (size_t i = 0; i < context_count && !found; i++) {
		if (contexts[i].handle == handle) {
			*context = contexts[i];
			found = true;
		}
	}
	pthread_rwlock_unlock(&contexts_lock);
	return found;
}

/* With the lock held. */
static bool make_room(void)
{
	size_t room = context_room ? 2 * context_room : 16;
	struct context *more;

	if (context_count < context_room)
		return true;
	more = realloc(contexts, room * sizeof(*more));
	if (!more) {
		log_once(LOG_WARNING, "out of host memory: a context is not tracked");
		return false;
	}
	contexts = more;
	context_room = room;
	return true;
}

/* Enters a context first met now; another thread may have been quicker. */
static bool enter(CUcontext handle, struct device *device, struct context *context)
{
	bool known = false;

	pthread_rwlock_wrlock(&contexts_lock);
	for (size_t i = 0; i < context_count && !known; i++) {
		if (contexts[i].handle == handle) {
			*context = contexts[i];
			known = true;
		}
	}
	if (!known && make_room()) {
		struct context *c = &contexts[context_count++];

		c->handle = handle;
		c->device = device;
		snprintf(c->container, sizeof(c->container), "ctx%u", ++contexts_seen);
		object_track(device->registry, NULL, &object_type_context, handle, 0);
		*context = *c;
		known = true;
	}
	pthread_rwlock_unlock(&contexts_lock);
	return known;
}

bool context_current(struct context *context)
{
	CUcontext handle = NULL;
	CUdevice device_handle;
	struct device *device;

	if (!devices || driver.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
		return false;
	if (context_find(handle, context))
		return true;
	if (driver.cuCtxGetDevice(&device_handle) != CUDA_SUCCESS)
		return false;
	device = device_set_by_handle(devices, device_handle);
	return device && enter(handle, device, context);
}

bool context_at(size_t i, struct context *context)
{
	bool found;

	pthread_rwlock_rdlock(&contexts_lock);
	found = i < context_count;
	if (found)
		*context = contexts[i];
	pthread_rwlock_unlock(&contexts_lock);
	return found;
}

unsigned int context_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

void context_forget(CUcontext handle)
{
	struct context gone = {0};

	atomic_fetch_add(&generation, 1);
	pthread_rwlock_wrlock(&contexts_lock);
	for (size_t i = 0; i < context_count; i++) {
		if (contexts[i].handle == handle) {
			gone = contexts[i];
			contexts[i] = contexts[--context_count];
			break;
		}
	}
	pthread_rwlock_unlock(&contexts_lock);
	if (!gone.handle)
		return;
	registry_cleanup(gone.device->registry, gone.container);
	object_forget(gone.device->registry, NULL, &object_type_context, gone.handle);
}
