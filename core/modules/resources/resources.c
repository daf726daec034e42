/* SPDX-License-Identifier: MIT */
/*
 * The resources of this process, listed for a process of the same user that asks for them
 * (core/wire/wire.h). Rules: runs inside the user's process, on the helper thread.
 *
 * The helper looks for requests when it is awake; segment_ring() wakes it. So a process has no
 * socket, thread or descriptor for this, and a program that closes all descriptors breaks nothing.
 * No thread waits for a slow reader.
 *
 * The list is made under the registry's lock without taking references, so the helper destroys
 * nothing.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/descriptor.h"
#include "core/base/file_status.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/wire/wire.h"

static struct {
	struct wire_token token;
	char path[PATH_MAX]; /* where its socket is at a request; "": none can come */
} asked;

enum { RESOURCES_LOOK_MS = 10 };

/* Prepares for requests. It may read the environment. */
static void resources_started(void)
{
	uint64_t token, started_ns;

	if (!this_job.segment)
		return;
	segment_identity(this_job.segment, &token, &started_ns);
	asked.token = resources_token(token, started_ns);
	wire_socket_path(&asked.token, asked.path, sizeof(asked.path));
}

/* --- the list --- */

/* The answer's file, which is written a piece at a time. */
struct list {
	int file, error; /* a negative errno */
	uint64_t written;
	size_t size; /* of the piece at hand */
	char bytes[32768];
};

/* Writes the piece at hand. */
static void flush(struct list *list)
{
	struct rlimit limit;

	/* a file beyond the limit would be SIGXFSZ, which ends the process */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < list->written + list->size)
		list->error = -EFBIG;
	for (size_t done = 0; !list->error && done < list->size;) {
		ssize_t length =
		    pwrite(list->file, list->bytes + done, list->size - done, (off_t)list->written);

		if (length > 0) {
			done += (size_t)length;
			list->written += (uint64_t)length;
		} else if (length == 0 || errno != EINTR) {
			list->error = length == 0 ? -ENOSPC : -errno;
		}
	}
	list->size = 0;
}

/* Returns the nanoseconds since a coarse time. */
static uint64_t age_of(uint64_t born_ns)
{
	uint64_t now = clock_now();

	return now > born_ns ? now - born_ns : 0;
}

static void resources_put_line(const struct registry *registry,
                               const struct registry_listing *listing, struct list *list)
{
	char name[REGISTRY_HANDLE_MAX];
	struct handle handle;

	if (handle_make(registry, listing->container, listing->type, listing->name, &handle) != 0)
		return;
	handle_format(&handle, name, sizeof(name));
	if (list->size + RESOURCES_LINE_MAX > sizeof(list->bytes))
		flush(list);
	list->size += (size_t)snprintf(list->bytes + list->size, RESOURCES_LINE_MAX,
	                               "%llu %llu %s\n", (unsigned long long)listing->bytes,
	                               (unsigned long long)age_of(listing->born_ns), name);
}

/* Lists the resources of one device. */
static void resources_list_device(struct device *device, struct resources_reply *reply,
                                  struct list *list)
{
	struct registry *registry = device->registry;
	struct registry_listing *listing;
	size_t room, there;

	modules_call(list, device);
	/* a few may come meanwhile */
	room = registry_count(registry, NULL) + 64;
	listing = calloc(room, sizeof(*listing));
	if (!listing) {
		list->error = -ENOMEM;
		return;
	}
	there = registry_list(registry, listing, room);
	if (room > there)
		room = there;
	for (size_t i = 0; i < room && !list->error; i++)
		resources_put_line(registry, &listing[i], list);
	reply->listed += room;
	reply->left_out += there - room;
	free(listing);
}

/* --- the answer --- */

static void resources_do_answer(int socket, struct device_set *devices)
{
	struct resources_reply reply = resources_reply_new();
	struct list list = {.file = descriptor_above_stdio(memfd_create("spillway", MFD_CLOEXEC))};

	if (list.file < 0)
		list.error = -errno;
	for (int i = 0; i < devices->count && !list.error; i++)
		resources_list_device(&devices->device[i], &reply, &list);
	if (!list.error)
		flush(&list);
	reply.size = list.written;
	reply.error = -list.error;
	/* text that does not fit at once is not waited for */
	(void)wire_send(socket, &reply, sizeof(reply), &list.file, !list.error, 0);
	if (list.file >= 0)
		close(list.file);
}

/*
 * Returns whether a socket that refuses is so new that it may be bound and not listening yet. Later
 * its owner is gone.
 */
static bool is_new(const struct stat *found)
{
	return file_status_age(found) <= 1;
}

/*
 * Answers a request, if there is one. Costs one system call where there is none. Returns whether a
 * request is about to come, which is looked for again after RESOURCES_LOOK_MS.
 */
static bool resources_answer(void)
{
	struct stat found;
	int socket;

	if (!asked.path[0] || file_status(asked.path, &found) != 0 || !S_ISSOCK(found.st_mode))
		return false;
	socket = wire_connect(&asked.token, 0);
	if (socket < 0)
		return socket == -ECONNREFUSED && is_new(&found);
	resources_do_answer(socket, &this_job.devices);
	close(socket);
	return false;
}

static void resources_tick(int *look_ms)
{
	if (resources_answer() && *look_ms > RESOURCES_LOOK_MS)
		*look_ms = RESOURCES_LOOK_MS;
}

const struct module module_resources = {
    .name = "resources", .started = resources_started, .tick = resources_tick};
