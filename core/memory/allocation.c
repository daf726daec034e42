/* Allocations. Rules: runs inside the user's process; never calls the driver. */
#include "core/memory/allocation.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/memory/elastic.h"
#include "core/state/event.h"

/* Ordered by address; entries never overlap, so a one-byte key finds the entry around it. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static void *table;
static _Atomic size_t table_count; /* read without the lock: mostly zero */

static int by_range(const void *a, const void *b)
{
	const struct allocation *x = a, *y = b;

	if (x->address + x->size <= y->address)
		return -1;
	return x->address >= y->address + y->size;
}

static bool is_in_table(const struct allocation *a)
{
	return a->side == SEGMENT_ON_HOST || a->is_managed;
}

static int table_add(struct allocation *a)
{
	struct allocation **node;
	int error = 0;

	pthread_mutex_lock(&table_lock);
	node = tsearch(a, &table, by_range);
	if (!node)
		error = -ENOMEM;
	else if (*node != a)
		error = -EEXIST;
	else
		table_count++;
	pthread_mutex_unlock(&table_lock);
	return error;
}

static void table_remove(struct allocation *a)
{
	pthread_mutex_lock(&table_lock);
	table_count -= tdelete(a, &table, by_range) != NULL;
	pthread_mutex_unlock(&table_lock);
}

static uint64_t allocation_memory_used(const struct resource *resource)
{
	const struct allocation *a = (const struct allocation *)resource;

	/* an elastic one's chunks are charged, and a pool for what comes from it */
	return a->charged ? a->charged : a->size;
}

static void allocation_describe(const struct resource *resource, char *buf, size_t size)
{
	const struct allocation *a = (const struct allocation *)resource;

	snprintf(buf, size, "%zu bytes on the %s", a->size,
	         a->side == SEGMENT_ON_DEVICE ? "device" : "host");
}

static void allocation_destroy(struct resource *resource)
{
	struct allocation *a = (struct allocation *)resource;

	if (a->pool && a->pool_span)
		pool_elastic(a->pool, -(int64_t)a->pool_live, -(int64_t)a->pool_span);
	else if (a->pool && a->side == SEGMENT_ON_DEVICE)
		pool_freed(a->pool, a->pool_live);
	else if (a->pool)
		pool_unspilled(a->pool, a->charged);
	pool_release(a->pool);
	if (a->charged) /* an elastic one's chunks are */
		device_uncharge(a->context.device, a->side, a->charged);
	if (a->is_in_books) {
		statistics_sub(&a->context.device->statistics->allocations, 1);
		/* The registry let go of what was not freed: it is the book. */
		if (elastic_is(a))
			elastic_disown(a);
		else if (is_in_table(a))
			table_remove(a);
	}
	free(a);
}

const struct resource_type allocation_type = {
    .name = "allocation",
    .memory_used = allocation_memory_used,
    .describe = allocation_describe,
    .destroy = allocation_destroy,
};

struct allocation *allocation_create(const struct context *context, CUdeviceptr address,
                                     size_t size, enum segment_side side, uint64_t charged)
{
	/* calloc() goes past the thread's cache. */
	struct allocation *a = malloc(sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct allocation){.context = *context,
	                         .address = address,
	                         .size = size,
	                         .side = side,
	                         .charged = charged};
	resource_init(&a->resource, &allocation_type);
	return a;
}

/* Not the driver's to free with its context, or to be found by any address in it. */
static bool is_ours(const struct allocation *a)
{
	return a->backing.provider || a->is_managed;
}

static int enter(struct allocation *a)
{
	int error = is_in_table(a) ? table_add(a) : 0;

	if (error)
		return error;
	error = registry_add_object(a->context.device->registry, a->context.container, a->address,
	                            &a->resource);
	if (error && is_in_table(a))
		table_remove(a);
	return error;
}

static void note(const struct allocation *a, enum event_kind kind)
{
	const struct statistics *s = a->context.device->statistics;

	if (a->size > EVENT_ALLOCATION_LEAST)
		event_note(.kind = kind, .device = a->context.device->id.ordinal, .a = a->size,
		           .b = statistics_get(&s->device_used), .c = statistics_get(&s->host_used),
		           .object = a->address, .context = event_context(a->context.container));
}

/* It has left the registry. */
static void has_left(struct allocation *a)
{
	if (atomic_exchange(&a->is_in_books, false))
		statistics_sub(&a->context.device->statistics->allocations, 1);
	if (is_in_table(a))
		table_remove(a);
	note(a, EVENT_free);
}

bool allocation_leave(struct allocation *a)
{
	if (registry_delete_object(a->context.device->registry, a->context.container,
	                           &allocation_type, a->address) != 0)
		return false;
	has_left(a);
	return true;
}

struct allocation *allocation_take(CUdeviceptr address)
{
	struct context_place place;
	struct allocation *a =
	    (struct allocation *)context_take_object(&allocation_type, address, &place);

	if (a)
		has_left(a);
	return a;
}

static struct allocation *find_in(const struct context *context, CUdeviceptr address)
{
	return (struct allocation *)registry_lookup_object(
	    context->device->registry, context->container, &allocation_type, address);
}

/* The driver gives an address again: what had it is gone, by a way that we did not see. */
static bool leave_stale(const struct allocation *a)
{
	struct allocation *stale = find_in(&a->context, a->address);
	bool left = stale && allocation_leave(stale);

	if (stale)
		resource_release(&stale->resource);
	return left;
}

int allocation_enter(struct allocation *a)
{
	int error = enter(a);

	if (error == -EEXIST && leave_stale(a))
		error = enter(a);
	if (!error && !atomic_exchange(&a->is_in_books, true))
		statistics_add(&a->context.device->statistics->allocations, 1);
	if (!error)
		note(a, EVENT_allocation);
	return error;
}

struct allocation *allocation_find(CUdeviceptr address)
{
	struct context context;
	struct allocation *found = NULL;

	/* Mostly it was made in the context that is current now. */
	if (context_current(&context))
		found = find_in(&context, address);
	for (size_t i = 0; !found && context_at(i, &context); i++)
		found = find_in(&context, address);
	return found;
}

static struct allocation *in_table_at(CUdeviceptr address, bool is_managed)
{
	struct allocation key = {.address = address, .size = 1};
	struct allocation **node, *found = NULL;

	if (!table_count)
		return NULL;
	pthread_mutex_lock(&table_lock);
	node = tfind(&key, &table, by_range);
	if (node && (*node)->is_managed == is_managed && resource_hold_if_alive(&(*node)->resource))
		found = *node;
	pthread_mutex_unlock(&table_lock);
	return found;
}

struct allocation *allocation_spilled_at(CUdeviceptr address)
{
	return in_table_at(address, false);
}

struct allocation *allocation_managed_at(CUdeviceptr address)
{
	return in_table_at(address, true);
}

struct each_of_ours {
	CUcontext context;
	void (*each)(void *cookie, struct allocation *allocation);
	void *cookie;
};

static void if_ours(void *cookie, const struct registry_entry *entry)
{
	struct allocation *a = (struct allocation *)entry->resource;
	const struct each_of_ours *walk = cookie;

	if (a->resource.type == &allocation_type && is_ours(a) &&
	    a->context.handle == walk->context)
		walk->each(walk->cookie, a);
}

void allocation_each_of_ours(const struct context *context,
                             void (*each)(void *cookie, struct allocation *allocation),
                             void *cookie)
{
	struct each_of_ours walk = {context->handle, each, cookie};

	registry_walk(context->device->registry, if_ours, &walk);
}
