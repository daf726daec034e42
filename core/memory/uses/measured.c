/* Measured costs. Rules: runs inside the user's process, within its calls; leaves its current context as it was. */
#include "core/memory/uses/measured.h"

#include "core/base/log.h"
#include "core/base/once.h"
#include "core/cuda/capture.h"

bool (*measured_without_context)(const struct config_device *device, uint64_t *used);
bool (*measured_by_process)(const struct config_device *device, uint64_t *used);

/* How to learn what is in use; both ends of a measurement use the same way. */
enum way { BY_CONTEXT, WITHOUT_CONTEXT, WAYS };

/* What was in use when a measurement began or ended last, per device and way. */
static struct reading {
	pthread_mutex_t lock;
	unsigned int running;
	bool waits_for_first; /* context of the device */
	uint64_t used, charged;
} readings[DEVICE_MAX][WAYS];
static struct once once;
static bool started;

static void make_locks(void)
{
	for (int i = 0; i < DEVICE_MAX; i++)
		for (int w = 0; w < WAYS; w++)
			pthread_mutex_init(&readings[i][w].lock, NULL);
}

static struct reading *reading_of(const struct device *device, enum way way)
{
	once_call(&once, make_locks);
	return &readings[device->id.ordinal][way];
}

static bool read_in_current(uint64_t *used)
{
	size_t free_bytes, total;

	if (driver.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS || free_bytes > total)
		return false;
	*used = total - free_bytes;
	return true;
}

/* In any context of the device: the current one if it can be, else one that is pushed for the while. */
static bool read_by_context(const struct device *device, uint64_t *used)
{
	struct context context;
	bool known;

	if (context_current(&context) && context.device == device)
		return read_in_current(used);
	for (size_t i = 0; context_at(i, &context); i++) {
		if (context.device != device || context_push(context.handle) != CUDA_SUCCESS)
			continue;
		known = read_in_current(used);
		context_pop(context.handle);
		return known;
	}
	return false;
}

static bool read_used(const struct device *device, enum way way, uint64_t *used)
{
	if (way == BY_CONTEXT)
		return read_by_context(device, used);
	return measured_without_context && measured_without_context(&device->id, used);
}

bool measured_free(const struct device *device, uint64_t *bytes)
{
	uint64_t used;

	if (!read_used(device, WITHOUT_CONTEXT, &used) && !read_by_context(device, &used))
		return false;
	*bytes = device->id.memory > used ? device->id.memory - used : 0;
	return true;
}

static bool begin(struct device *device, enum way way)
{
	struct reading *r = reading_of(device, way);
	bool known = true;

	pthread_mutex_lock(&r->lock);
	if (r->running == 0) {
		known = read_used(device, way, &r->used);
		r->charged = device_charged(device, SEGMENT_ON_DEVICE);
	}
	r->running += known;
	pthread_mutex_unlock(&r->lock);
	return known;
}

/* With the reading's lock held: growth since the last reading that nobody has charged. */
static uint64_t uncharged_growth(const struct reading *r, uint64_t used, uint64_t charged)
{
	/* In this order no term falls below zero by itself. */
	uint64_t now = used + r->charged, before = r->used + charged;

	return now > before ? now - before : 0;
}

/* The most that can be this process's own. */
static uint64_t uncharged_own(const struct device *device)
{
	uint64_t charged = statistics_get(&device->statistics->device_used), used;

	if (!started || !measured_by_process || !measured_by_process(&device->id, &used))
		return UINT64_MAX;
	return used > charged ? used - charged : 0;
}

static uint64_t end(struct device *device, enum way way, const struct context *context,
                    const void *owner, uint64_t most)
{
	struct reading *r = reading_of(device, way);
	uint64_t used, bytes = 0;

	pthread_mutex_lock(&r->lock);
	r->running--;
	if (owner && read_used(device, way, &used)) {
		bytes = uncharged_growth(r, used, device_charged(device, SEGMENT_ON_DEVICE));
		if (bytes) { /* mostly nothing grew, and others need not be asked */
			uint64_t own = uncharged_own(device);

			most = own < most ? own : most;
			bytes = bytes < most ? bytes : most;
		}
		if (bytes && device_charge_taken(device, bytes) != 0)
			bytes = 0;
		r->used = used;
		r->charged = device_charged(device, SEGMENT_ON_DEVICE);
	}
	pthread_mutex_unlock(&r->lock);
	if (bytes)
		side_enter(&side_type_measured, context, (uintptr_t)owner, bytes, bytes);
	return bytes;
}

void measured_begin(struct measuring *measuring)
{
	measuring->device = NULL;
	if (!capture_is_active() && context_current(&measuring->context) &&
	    begin(measuring->context.device, BY_CONTEXT))
		measuring->device = measuring->context.device;
}

uint64_t measured_end(const struct measuring *measuring, const void *owner, uint64_t most)
{
	if (!measuring->device)
		return 0;
	return end(measuring->device, BY_CONTEXT, &measuring->context, owner, most);
}

/* The first of a device, or the first after all have gone: what others took until now is theirs. */
static void begin_first(struct device *device)
{
	struct reading *r = reading_of(device, WITHOUT_CONTEXT);

	pthread_mutex_lock(&r->lock);
	if (started && read_used(device, WITHOUT_CONTEXT, &r->used)) {
		r->charged = device_charged(device, SEGMENT_ON_DEVICE);
		r->running += !r->waits_for_first;
		r->waits_for_first = true;
	}
	pthread_mutex_unlock(&r->lock);
}

void measured_start(struct device_set *set)
{
	started = true;
	for (int i = 0; i < set->count; i++)
		begin_first(&set->device[i]);
}

void measured_begin_context(struct measuring *measuring, struct device *device)
{
	struct context context;
	bool known = false;

	measuring->device = NULL;
	if (capture_is_active() || !device)
		return;
	for (size_t i = 0; !known && context_at(i, &context); i++)
		known = context.device == device;
	if (!known)
		begin_first(device);
	else if (begin(device, BY_CONTEXT))
		measuring->device = device;
}

uint64_t measured_end_context(const struct measuring *measuring, CUcontext made)
{
	struct context context;
	bool known = made && context_find(made, &context);

	if (!measuring->device) {
		if (known)
			measured_first_met(&context);
		return 0;
	}
	return end(measuring->device, BY_CONTEXT, &context, known ? made : NULL,
	           MEASURED_MOST_CONTEXT);
}

struct leaving measured_leave(const void *owner)
{
	return side_leave(&side_type_measured, (uintptr_t)owner);
}

void measured_left(struct leaving *leaving, bool gone)
{
	registry_left(leaving, gone); /* however often it grew */
	resource_release(leaving->resource);
	leaving->resource = NULL;
}

void measured_forget(const void *owner)
{
	struct leaving leaving = measured_leave(owner);

	measured_left(&leaving, true);
}

void measured_first_met(const struct context *context)
{
	struct reading *r = reading_of(context->device, WITHOUT_CONTEXT);
	bool waited;

	pthread_mutex_lock(&r->lock);
	waited = r->waits_for_first;
	r->waits_for_first = false;
	pthread_mutex_unlock(&r->lock);
	if (waited)
		end(context->device, WITHOUT_CONTEXT, context,
		    capture_is_active() ? NULL : context->handle, MEASURED_MOST_CONTEXT);
}
