/*
 * Answering who asks for the resources of this process. Rules: runs inside the user's process, on
 * the helper thread.
 */
#include "core/job/resources.h"

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
#include "core/job/step_record.h"
#include "core/wire/resources_wire.h"

static struct {
	struct wire_token token;
	char path[PATH_MAX]; /* where its socket is when somebody asks; "": nobody can */
} asked;

void resources_start(const struct segment *segment)
{
	uint64_t token, started_ns;

	segment_identity(segment, &token, &started_ns);
	asked.token = resources_token(token, started_ns);
	wire_socket_path(&asked.token, asked.path, sizeof(asked.path));
}

/* --- the list --- */

struct text {
	char *bytes;
	size_t size;
};

/* Returns the nanoseconds since a coarse time. */
static uint64_t age_of(uint64_t born_ns)
{
	uint64_t now = clock_now();

	return now > born_ns ? now - born_ns : 0;
}

static void put_line(const struct registry *registry, const struct registry_listing *listing,
                     struct text *text)
{
	char name[REGISTRY_HANDLE_MAX];
	struct handle handle;

	if (handle_make(registry, listing->container, listing->type, listing->name, &handle) != 0)
		return;
	handle_format(&handle, name, sizeof(name));
	text->size += (size_t)snprintf(text->bytes + text->size, RESOURCES_LINE_MAX,
	                               "%llu %llu %s\n", (unsigned long long)listing->bytes,
	                               (unsigned long long)age_of(listing->born_ns), name);
}

/* Lists the resources of one device, as far as there is room. The text grows. */
static int list_device(struct device *device, struct resources_reply *reply, struct text *text)
{
	struct registry *registry = device->registry;
	size_t room = RESOURCES_MAX - (size_t)reply->listed, there;
	struct registry_listing *listing;
	char *grown;

	/* of the step that runs now, if steps are known: made for who asks, gone with the step */
	resource_release(job_step_record(device));
	there = registry_count(registry, NULL);
	/* a few may come meanwhile */
	if (room > there + 64)
		room = there + 64;
	listing = calloc(room ? room : 1, sizeof(*listing));
	grown = realloc(text->bytes, text->size + room * RESOURCES_LINE_MAX + 1);
	if (grown)
		text->bytes = grown;
	if (!listing || !grown) {
		free(listing);
		return -ENOMEM;
	}
	there = registry_list(registry, listing, room);
	if (room > there)
		room = there;
	for (size_t i = 0; i < room; i++)
		put_line(registry, &listing[i], text);
	reply->listed += room;
	reply->left_out += there - room;
	free(listing);
	return 0;
}

static int list_all(struct device_set *devices, struct resources_reply *reply, struct text *text)
{
	int error = 0;

	for (int i = 0; i < devices->count && !error; i++)
		error = list_device(&devices->device[i], reply, text);
	reply->size = text->size;
	return error;
}

/* --- the answer --- */

/* Writes the text to a file without a name. Returns its descriptor or a negative errno. */
static int file_of(const struct text *text)
{
	struct rlimit limit;
	int fd, error = 0;

	/* a file beyond the limit would be SIGXFSZ, which ends the process */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < text->size)
		return -EFBIG;
	fd = descriptor_above_stdio(memfd_create("spillway", MFD_CLOEXEC));
	if (fd < 0)
		return -errno;
	for (size_t done = 0; !error && done < text->size;) {
		ssize_t length = pwrite(fd, text->bytes + done, text->size - done, (off_t)done);

		if (length > 0)
			done += (size_t)length;
		else if (length == 0 || errno != EINTR)
			error = length == 0 ? -ENOSPC : -errno;
	}
	if (!error)
		return fd;
	close(fd);
	return error;
}

static void answer(int socket, struct device_set *devices)
{
	struct resources_reply reply = resources_reply_new();
	struct text text = {0};
	int error = list_all(devices, &reply, &text);
	int file = error ? error : file_of(&text);

	free(text.bytes);
	if (file < 0)
		reply.error = -file;
	/* what does not fit at once is not waited for */
	(void)wire_send(socket, &reply, sizeof(reply), &file, file >= 0, 0);
	if (file >= 0)
		close(file);
}

/*
 * Returns whether a socket that refuses is so new that it may be bound and not listening yet; later
 * nobody is there any more.
 */
static bool is_new(const struct stat *found)
{
	return (time_t)(clock_of_day() / 1000000000) - found->st_mtime <= 1;
}

bool resources_answer(struct device_set *devices)
{
	struct stat found;
	int socket;

	if (!asked.path[0] || file_status(asked.path, &found) != 0 || !S_ISSOCK(found.st_mode))
		return false;
	socket = wire_connect(&asked.token, 0);
	if (socket < 0)
		return socket == -ECONNREFUSED && is_new(&found);
	answer(socket, devices);
	close(socket);
	return false;
}
