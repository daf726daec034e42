/* SPDX-License-Identifier: MIT */
/* Readers of event rings in a registry. */
#include "tools/events/event_readers.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/events/container_info.h"
#include "tools/events/deleter.h"
#include "tools/view/tool.h"

struct event_readers {
	struct registry *registry;
	struct container_info named; /* the reader that was found last */
	struct queue *work;
	struct resource *work_deleter;
};

struct reader {
	struct resource resource;
	struct ring_reader *reader;
};

struct work {
	struct resource resource;
	struct queue *queue;
};

static void reader_destroy(struct resource *resource)
{
	ring_reader_destroy(((struct reader *)resource)->reader);
	free(resource);
}

static void work_destroy(struct resource *resource)
{
	queue_destroy(((struct work *)resource)->queue, free);
	free(resource);
}

static const struct resource_type reader_type = {.name = "ring_reader", .destroy = reader_destroy};
static const struct resource_type work_type = {.name = "work", .destroy = work_destroy};

static struct resource *create_reader(void *cookie)
{
	const int *directory = cookie;
	struct reader *r = allocate(sizeof *r);

	resource_init(&r->resource, &reader_type);
	r->reader = ring_reader_create(fcntl(*directory, F_DUPFD_CLOEXEC, 0));
	if (!r->reader)
		fail("out of memory");
	return &r->resource;
}

struct event_readers *event_readers_create(size_t room)
{
	struct event_readers *readers = allocate(sizeof *readers);
	struct work *work = allocate(sizeof *work);

	readers->registry = registry_create("events", getpid(), 0);
	resource_init(&work->resource, &work_type);
	work->queue = readers->work = queue_create(room);
	if (!readers->registry || !work->queue ||
	    registry_add_anonymous(readers->registry, "events", &work->resource,
	                           &readers->work_deleter) != 0)
		fail("out of memory");
	return readers;
}

struct queue *event_readers_work(struct event_readers *readers)
{
	return readers->work;
}

struct ring_reader *event_readers_find(struct event_readers *readers, const char *name,
                                       int directory)
{
	/*
	 * A job's reader is shared by all requests for it; the reader of every job has a generated
	 * name.
	 */
	const struct container_wish wish = {.container = "events",
	                                    .own_name = name ? name : "every",
	                                    .shares_own_name = name != NULL};
	struct ring_reader *reader;
	struct resource *found;

	/* A job's name that is too long for a resource's has a reader without a name, too. */
	if (container_info_make(&wish, &readers->named) != 0 &&
	    container_info_make(&(struct container_wish){.container = "events"}, &readers->named) !=
	        0)
		fail("'%s': no reader", name);
	found = registry_lookup_or_create(readers->registry, readers->named.container, &reader_type,
	                                  readers->named.name, create_reader, &directory);
	if (found) {
		reader = ((struct reader *)found)->reader;
		resource_release(found); /* the registry keeps it until the end */
		return reader;
	}
	fail("out of memory");
}

void event_readers_destroy(struct event_readers *readers)
{
	struct handle work;

	container_info_end(readers->registry, &readers->named, &reader_type);
	deleter_handle(readers->work_deleter, &work);
	resource_release(readers->work_deleter);
	assert(!handle_is_initialized(readers->registry, &work)); /* it has gone with its deleter */
	registry_clear(readers->registry);
	registry_destroy(readers->registry);
	free(readers);
}
