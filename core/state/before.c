/* Reading segments of the version before this one. Nothing is mapped and nothing is written. */
#include "core/state/before.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "core/state/before_layout.h"
#include "core/state/layout.h"

enum { TRIES = 50, PAUSE_NS = 1000000 };

/* A dead process's memory may be held so long after its job was last heard of. */
#define DRAINED_NS (SEGMENT_SILENT_NS + SEGMENT_DRAIN_NS)

static bool is_of_before(const struct before_header *header, const struct stat *found,
                         const char *job)
{
	return memcmp(header->magic, SEGMENT_MAGIC, sizeof header->magic) == 0 &&
	       header->version == SEGMENT_VERSION_BEFORE && header->size == BEFORE_SIZE &&
	       found->st_size == BEFORE_SIZE && strncmp(header->job, job, 64) == 0 &&
	       header->device_count <= BEFORE_DEVICES;
}

/* Reads a copy during which no process came or went; or, after a bounded time, the last one.
 * Returns whether it could be read and is of the version before. */
static bool read_still(int fd, struct before_file *copy, const char *job)
{
	struct deadline until = DEADLINE_IN((uint64_t)TRIES * PAUSE_NS);
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
	         deadline_nap(&until, PAUSE_NS));
	return true;
}

static struct before_file *read_file(int directory, const char *job)
{
	char name[SEGMENT_FILE_NAME_MAX];
	struct before_file *copy = aligned_alloc(64, sizeof *copy);
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (copy && (fd < 0 || !read_still(fd, copy, job))) {
		free(copy);
		copy = NULL;
	}
	if (fd >= 0)
		close(fd);
	return copy;
}

static bool is_of_this_boot(const struct before_header *header)
{
	struct segment_header now;

	memcpy(now.boot_id, header->boot_id, sizeof now.boot_id);
	now.boot_id[sizeof now.boot_id - 1] = '\0';
	return segment_is_of_this_boot(&now);
}

static enum segment_seat_state state_of(const struct before_header *header,
                                        const struct before_seat *seat)
{
	uint64_t now = clock_now();

	if (seat->state != SEAT_LIVE && seat->state != SEAT_DRAINING)
		return SEAT_FREE;
	if (seat->state == SEAT_LIVE && (seat->life & FUTEX_TID_MASK) != 0 &&
	    (seat->life & FUTEX_OWNER_DIED) == 0)
		return SEAT_LIVE;
	if (seat->state == SEAT_DRAINING)
		return now < seat->drained_ns && seat->drained_ns - now <= SEGMENT_DRAIN_NS
		           ? SEAT_DRAINING
		           : SEAT_FREE;
	return now < header->tended_ns + DRAINED_NS ? SEAT_DRAINING : SEAT_FREE;
}

/* --- as it is shown --- */

static void copy_text(char *to, size_t size, const char *from)
{
	memcpy(to, from, size - 1);
	to[size - 1] = '\0';
	printable(to);
}

static int counted(uint32_t count)
{
	return count && count <= (uint32_t)INT_MAX ? (int)count - 1 : -1;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Turns a reason why memory stays into today's code: there is one word more since then. */
static uint64_t held_now(uint64_t held_then)
{
	return held_then ? held_then + 1 : HELD_NONE;
}

#define ADD_SUM(total, one, is_live)  ((total) + (one))
#define ADD_NOW(total, one, is_live)  ((total) + ((is_live) ? (one) : 0))
#define ADD_MOST(total, one, is_live) ((is_live) ? higher(total, one) : (total))
#define ADD_PEAK(total, one, is_live) higher(total, one)
#define ADD_SAME(total, one, is_live) higher(total, one)

static void show(struct statistics *shown, const struct before_statistics *of, bool is_live)
{
	const uint64_t *word = of->word;

#define X(name, how, unit, meaning)                                                            \
	statistics_set(&shown->name, ADD_##how(statistics_get(&shown->name), *word, is_live)); \
	word++;
	STATISTICS(X)
#undef X
}

static_assert(sizeof(struct statistics) == BEFORE_STATISTICS * 8,
              "a figure more or less: say here where each of the words of then is shown");

static void show_process(struct segment_view *view, const struct before_seat *seat,
                         enum segment_seat_state state)
{
	struct segment_process *process = &view->process[view->process_count++];

	process->state = state;
	process->pid = seat->pid;
	copy_text(process->command, sizeof process->command, seat->command);
	memcpy(process->complaint, seat->complaint, sizeof process->complaint - 1);
	printable_lines(process->complaint);
	process->started_ns = seat->started_ns;
	process->override_hash = seat->override_hash;
	process->threads = counted(seat->threads);
	process->contexts = counted(seat->contexts);
	for (int d = 0; d < BEFORE_DEVICES; d++) {
		struct statistics *own = &process->device[d];

		for (int side = 0; side < SEGMENT_SIDES; side++) {
			process->charged[d][side] = seat->charged[d][side];
			view->charged[d][side] += seat->charged[d][side];
		}
		show(own, &seat->device[d], true);
		show(&view->job_total[d], &seat->device[d], state == SEAT_LIVE);
		statistics_set(&own->held_reason, held_now(statistics_get(&own->held_reason)));
	}
}

static void show_device(struct segment_view *view, const struct before_header *header, int d)
{
	struct statistics *total = &view->job_total[d];

	copy_text(view->device[d].uuid, sizeof view->device[d].uuid, header->device[d].uuid);
	copy_text(view->device[d].pci_bus_id, sizeof view->device[d].pci_bus_id,
	          header->device[d].pci_bus_id);
	copy_text(view->device[d].name, sizeof view->device[d].name, header->device[d].name);
	view->device[d].memory = header->device[d].memory;
	view->orphaned[d] = header->orphaned[d];
	view->charged[d][SEGMENT_ON_DEVICE] += header->orphaned[d];
	statistics_set(&total->held_reason, held_now(statistics_get(&total->held_reason)));
	statistics_set(&total->device_peak, header->peak[d][SEGMENT_ON_DEVICE]);
	statistics_set(&total->host_peak, header->peak[d][SEGMENT_ON_HOST]);
}

static void show_file(const struct before_file *file, struct segment_view *view)
{
	const struct before_header *header = &file->header;
	bool this_boot = is_of_this_boot(header);
	int live = 0;

	memset(view, 0, sizeof *view);
	copy_text(view->job, sizeof view->job, header->job);
	copy_text(view->labels, sizeof view->labels, header->labels);
	copy_text(view->shared_by, sizeof view->shared_by, header->shared_by);
	view->is_unnamed = header->is_unnamed != 0;
	view->token = header->token;
	view->created_ns = header->created_ns;
	view->device_count = (int)header->device_count;
	for (int d = 0; d < BEFORE_DEVICES; d++)
		show(&view->job_total[d], &header->ended[d], false);
	for (int i = 0; i < BEFORE_SLOTS; i++) {
		enum segment_seat_state state =
		    this_boot ? state_of(header, &file->seat[i]) : SEAT_FREE;

		live += state == SEAT_LIVE;
		if (state != SEAT_FREE)
			show_process(view, &file->seat[i], state);
	}
	for (int d = 0; d < BEFORE_DEVICES; d++)
		show_device(view, header, d);
	view->ended_ns = live ? 0 : header->seen_ns;
}

int segment_read_before(int directory, const char *job, struct segment_view *view)
{
	struct before_file *file = read_file(directory, job);

	if (!file)
		return -EPROTO;
	show_file(file, view);
	free(file);
	return 0;
}

bool segment_is_of_before(int directory, const char *job, bool *is_over)
{
	struct before_file *file = read_file(directory, job);

	if (!file)
		return false;
	*is_over = true;
	for (int i = 0; i < BEFORE_SLOTS && is_of_this_boot(&file->header); i++)
		*is_over &= state_of(&file->header, &file->seat[i]) == SEAT_FREE;
	free(file);
	return true;
}
