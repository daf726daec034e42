/* Reading segments of the version before this one. Nothing is mapped and nothing is written. */
#include "core/state/before.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/state/before_layout.h"
#include "core/state/layout.h"

#define STILL_NS 50000000ull
#define NAP_NS   1000000ull

/* A dead process's memory may be held so long after its job was last heard of. */
#define DRAINED_NS (SEGMENT_SILENT_NS + SEGMENT_DRAIN_NS)

static bool is_of_before(const struct before_header *header, const struct stat *found,
                         const char *job)
{
	return memcmp(header->magic, SEGMENT_MAGIC, sizeof header->magic) == 0 &&
	       header->version == SEGMENT_VERSION_BEFORE &&
	       header->size == sizeof(struct before_file) &&
	       found->st_size == (off_t)sizeof(struct before_file) &&
	       strncmp(header->job, job, sizeof header->job) == 0 &&
	       header->device_count <= BEFORE_DEVICES;
}

/* Reads a copy during which no process came or went; or, after a bounded time, the last one.
 * Returns whether it could be read and is of the version before. */
static bool read_still(int fd, struct before_file *copy, const char *job)
{
	struct deadline until = DEADLINE_IN(STILL_NS);
	uint64_t after;
	struct stat found;

	do {
		if (file_status_of(fd, &found) != 0 || !S_ISREG(found.st_mode) ||
		    pread(fd, copy, sizeof *copy, 0) != (ssize_t)sizeof *copy ||
		    !is_of_before(&copy->header, &found, job) ||
		    pread(fd, &after, sizeof after, offsetof(struct before_header, sequence)) !=
		        (ssize_t)sizeof after)
			return false;
	} while ((copy->header.sequence % 2 || copy->header.sequence != after) &&
	         deadline_nap(&until, NAP_NS));
	return true;
}

static struct before_file *read_file(int fd, const char *job)
{
	struct before_file *copy = aligned_alloc(_Alignof(struct before_file), sizeof *copy);

	if (copy && !read_still(fd, copy, job)) {
		free(copy);
		copy = NULL;
	}
	return copy;
}

/* --- as one of ours --- */

/* Words of then are words of now. */
#define SAME(to, from)                                                                             \
	do {                                                                                       \
		static_assert(sizeof(to) == sizeof(from), "say here how one of then is read now"); \
		memcpy(&(to), &(from), sizeof(to));                                                \
	} while (0)

#define SAME_TEXT(to, from)               \
	do {                              \
		SAME(to, from);           \
		(to)[sizeof(to) - 1] = 0; \
	} while (0)

static_assert(sizeof(struct counters) - COUNTERS_PLACES * sizeof(struct counters_place) ==
                  sizeof(struct before_counters),
              "a figure more or less: say here where each of the words of then is shown");

static void copy_counters(const struct before_counters *from, struct counters *to)
{
	const uint64_t *word = from->word;

#define X(name, how, unit, meaning) statistics_set(&to->name, *word++);
	COUNTERS(X)
#undef X
}

static void copy_header(const struct before_header *from, struct segment_header *to)
{
	memset(to, 0, sizeof *to);
	SAME(to->is_unnamed, from->is_unnamed);
	SAME_TEXT(to->boot_id, from->boot_id);
	SAME_TEXT(to->job, from->job);
	SAME_TEXT(to->labels, from->labels);
	SAME_TEXT(to->shared_by, from->shared_by);
	SAME(to->created_ns, from->created_ns);
	SAME(to->seen_ns, from->seen_ns);
	SAME(to->tended_ns, from->tended_ns);
	SAME(to->token, from->token);
	SAME(to->device_count, from->device_count);
	SAME(to->peak, from->peak);
	for (int d = 0; d < BEFORE_DEVICES; d++) {
		SAME_TEXT(to->device[d].uuid, from->device[d].uuid);
		SAME_TEXT(to->device[d].pci_bus_id, from->device[d].pci_bus_id);
		SAME_TEXT(to->device[d].name, from->device[d].name);
		SAME(to->device[d].memory, from->device[d].memory);
		SAME(to->claim[d], from->claim[d]);
		copy_counters(&from->ended[d].counters, &to->ended[d].counters);
		SAME(to->ended[d].facts, from->ended[d].facts);
	}
	to->rows = BEFORE_SEATS / SEGMENT_ROW;
}

static void copy_seat(struct segment_file *copy, int number, const struct before_seat *from)
{
	struct segment_seat *to = seat_of(copy, number);

	memcpy(&to->life, &from->life, sizeof from->life);
	SAME(to->pid, from->pid);
	SAME(to->started_ns, from->started_ns);
	SAME(to->drained_ns, from->drained_ns);
	SAME(to->exiting_ns, from->exiting_ns);
	SAME(to->override_hash, from->override_hash);
	SAME(to->threads, from->threads);
	SAME(to->contexts, from->contexts);
	SAME_TEXT(to->command, from->command);
	SAME_TEXT(to->complaint, from->complaint);
	for (int d = 0; d < BEFORE_DEVICES; d++) {
		SAME(books_of(copy, number, d)->ledger, from->ledger[d]);
		copy_counters(&from->counters[d], &books_of(copy, number, d)->counters);
	}
	if (from->state == SEAT_DRAINING)
		seats_drain(copy, number);
	else
		seats_enter(copy, number);
}

int before_read(int fd, const char *job, struct segment_file *copy)
{
	struct before_file *file = read_file(fd, job);

	if (!file)
		return -EPROTO;
	copy_header(&file->header, &copy->header);
	for (int n = 0; n < BEFORE_SEATS; n++)
		if (file->seat[n].state == SEAT_LIVE || file->seat[n].state == SEAT_DRAINING)
			copy_seat(copy, n, &file->seat[n]);
	for (int i = 0; i < BEFORE_EXPORTS; i++) {
		SAME(copy->export[i].owner, file->export[i].owner);
		SAME(copy->export[i].device, file->export[i].device);
		SAME(copy->export[i].bytes, file->export[i].bytes);
	}
	free(file);
	return 0;
}

/* --- whether it is over --- */

static bool is_of_this_boot(const struct before_header *header)
{
	struct segment_header now;

	SAME_TEXT(now.boot_id, header->boot_id);
	return segment_is_of_this_boot(&now);
}

static bool is_in_use(const struct before_header *header, const struct before_seat *seat)
{
	uint64_t now = clock_now();

	if (seat->state != SEAT_LIVE && seat->state != SEAT_DRAINING)
		return false;
	if (seat->state == SEAT_DRAINING)
		return now < seat->drained_ns && seat->drained_ns - now <= SEGMENT_DRAIN_NS;
	return ((seat->life & FUTEX_TID_MASK) != 0 && (seat->life & FUTEX_OWNER_DIED) == 0) ||
	       now < header->tended_ns + DRAINED_NS;
}

bool segment_is_of_before(int directory, const char *job, bool *is_over)
{
	char name[SEGMENT_FILE_NAME_MAX];
	struct before_file *file = NULL;
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		file = read_file(fd, job);
		close(fd);
	}
	if (!file)
		return false;
	*is_over = true;
	for (int i = 0; i < BEFORE_SEATS && is_of_this_boot(&file->header); i++)
		*is_over &= !is_in_use(&file->header, &file->seat[i]);
	free(file);
	return true;
}
