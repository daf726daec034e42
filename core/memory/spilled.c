/* Giving spilled memory back. Rules: runs inside the user's process, within its calls. */
#include "core/memory/spilled.h"

#include "core/memory/allocation.h"
#include "core/memory/quiet.h"
#include "core/pace/capture.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *postponed; /* holds a reference to each */
static _Atomic unsigned int postponed_count;

static void postpone(struct allocation *a)
{
	resource_hold(&a->resource);
	pthread_mutex_lock(&lock);
	a->postponed = postponed;
	postponed = a;
	postponed_count++;
	pthread_mutex_unlock(&lock);
}

/* False: not waited, because of a capture. */
static bool wait_and_release(const struct allocation *a, CUstream wait, CUresult *result)
{
	CUresult waited = wait ? driver.cuStreamSynchronize(wait) : quiet_wait(a->context.handle);
	CUresult released;

	if (quiet_is_refused(waited))
		return false;
	/* With any other error the context is broken and runs nothing more. */
	released = a->backing.provider->release(&a->backing);
	*result = waited != CUDA_SUCCESS ? waited : released;
	return true;
}

bool spilled_free(struct allocation *a, const struct vmem_free *how, CUresult *result)
{
	/* What the driver thinks of freeing now, it says of any address; none of its memory is at an odd one. */
	if (capture_is_active()) {
		*result = how->native(how->cookie, 1);
		if (quiet_is_refused(*result))
			return false;
	} else if (wait_and_release(a, how->wait, result)) {
		return true;
	}
	postpone(a);
	*result = CUDA_SUCCESS;
	return true;
}

void spilled_leave(struct allocation *a)
{
	CUresult ignored;

	if (!wait_and_release(a, NULL, &ignored))
		postpone(a);
}

bool spilled_is_postponed(CUdeviceptr address)
{
	bool found = false;

	if (!atomic_load_explicit(&postponed_count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&lock);
	for (const struct allocation *a = postponed; a && !found; a = a->postponed)
		found = address - a->address < a->size;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Those of a context, NULL: all; the caller's. */
static struct allocation *take(CUcontext context)
{
	struct allocation *taken = NULL, **at = &postponed;

	pthread_mutex_lock(&lock);
	while (*at) {
		struct allocation *a = *at;

		if (context && a->context.handle != context) {
			at = &a->postponed;
			continue;
		}
		*at = a->postponed;
		a->postponed = taken;
		taken = a;
		postponed_count--;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

static void free_taken(struct allocation *taken, bool alive)
{
	while (taken) {
		struct allocation *a = taken;

		taken = a->postponed;
		if (alive)
			spilled_leave(a);
		else if (a->backing.provider->outlives_context)
			a->backing.provider->release(&a->backing);
		resource_release(&a->resource);
	}
}

void spilled_settle(void)
{
	if (atomic_load_explicit(&postponed_count, memory_order_relaxed) && !capture_is_active())
		free_taken(take(NULL), true);
}

void spilled_settle_context(CUcontext context, bool alive)
{
	if (atomic_load(&postponed_count))
		free_taken(take(context), alive);
}
