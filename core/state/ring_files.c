/* SPDX-License-Identifier: MIT */
/*
 * The files of rings: their names, and when they go.
 *
 * Runs inside the user's process: descriptors are CLOEXEC and closed again.
 */
#include "core/state/ring_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/listing.h"

static const char ending[] = ".events";

const char *ring_name(const struct ring_id *id, char *name, size_t size)
{
	snprintf(name, size, "%s.%d-%016" PRIx64 "%s", id->job, id->pid, id->started_ns, ending);
	return name;
}

bool ring_name_parse(const char *name, struct ring_id *id)
{
	size_t length = strlen(name), tail = sizeof ending - 1;
	struct ring_id read;
	char again[RING_NAME_MAX];
	const char *dot;
	char *end;

	if (length <= tail || length >= sizeof again)
		return false;
	dot = memrchr(name, '.', length - tail);
	if (!dot || (size_t)(dot - name) >= sizeof read.job)
		return false;
	segment_copy_text(read.job, (size_t)(dot - name) + 1, name);
	read.pid = (int)strtol(dot + 1, &end, 10);
	read.started_ns = *end == '-' ? strtoull(end + 1, NULL, 16) : 0;
	/* Written again it is the same: no sign, space or zero too many, and the ending. */
	if (read.pid < 0 || directory_check_name(read.job) != 0 ||
	    strcmp(name, ring_name(&read, again, sizeof again)) != 0)
		return false;
	*id = read;
	return true;
}

struct ring_listing {
	const char *job;
	void (*found)(void *cookie, const char *name);
	void *cookie;
	int count;
};

static bool ring_files_list_one(void *cookie, int directory, const char *name)
{
	struct ring_listing *listing = cookie;
	struct ring_id id;

	(void)directory;
	if (!ring_name_parse(name, &id) || (listing->job && strcmp(listing->job, id.job) != 0))
		return true;
	listing->count++;
	if (listing->found)
		listing->found(listing->cookie, name);
	return true;
}

int ring_list(int directory, const char *job, void (*found)(void *cookie, const char *name),
              void *cookie)
{
	struct ring_listing listing = {.job = job, .found = found, .cookie = cookie};
	int error = listing_read(directory, ring_files_list_one, &listing);

	return error < 0 ? error : listing.count;
}

/* Rings of one job that may go; where none is kept they go at once, and nothing is allocated. */
struct removal {
	int directory, keep;
	const char *job;
	struct segment_file *file;
	struct ring_id *left;
	int count, room;
};

static bool is_in(struct segment_file *file, const struct ring_id *id)
{
	for (int n = -1; file && (n = slots_next(&file->header, n, SLOTS_LIVE)) >= 0;)
		if (slot_of(file, n)->pid == id->pid &&
		    slot_of(file, n)->started_ns == id->started_ns)
			return true;
	return false;
}

static void consider_ring(struct removal *removal, const char *name)
{
	bool is_unfinished = name[0] == '.';
	struct ring_id id;

	if (!ring_name_parse(name + is_unfinished, &id) || strcmp(id.job, removal->job) != 0 ||
	    is_in(removal->file, &id))
		return;
	if (is_unfinished || !removal->keep) {
		unlinkat(removal->directory, name, 0);
		return;
	}
	if (removal->count == removal->room) {
		int room = removal->room + 64;
		struct ring_id *left = realloc(removal->left, (size_t)room * sizeof *left);

		if (!left)
			return; /* it stays for the next time */
		removal->left = left;
		removal->room = room;
	}
	removal->left[removal->count++] = id;
}

static bool consider(void *cookie, int directory, const char *name)
{
	(void)directory;
	consider_ring(cookie, name);
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct ring_id *x = a, *y = b;

	return (x->started_ns < y->started_ns) - (x->started_ns > y->started_ns);
}

void rings_remove(int directory, const char *job, struct segment_file *file, int keep)
{
	struct removal removal = {.directory = directory, .keep = keep, .job = job, .file = file};
	char name[RING_NAME_MAX];

	(void)listing_read(directory, consider, &removal);
	if (!removal.left)
		return;
	if (removal.count > keep)
		qsort(removal.left, (size_t)removal.count, sizeof *removal.left, newest_first);
	for (int i = keep; i < removal.count; i++)
		unlinkat(directory, ring_name(&removal.left[i], name, sizeof name), 0);
	free(removal.left);
}

/* Returns whether a ring belongs to no job, and no process writes to it. */
static bool ring_is_left(int directory, const char *name)
{
	char segment[SEGMENT_FILE_NAME_MAX];
	enum other_life life = OTHER_UNKNOWN;
	struct ring_id id;
	struct stat found;
	int fd;

	if (!ring_name_parse(name + (name[0] == '.'), &id))
		return false;
	snprintf(segment, sizeof segment, "%s.segment", id.job);
	if (file_status_at(directory, segment, &found) == 0 || errno != ENOENT)
		return false;
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		life = segment_file_life(fd);
		close(fd);
	}
	return life == OTHER_OVER;
}

static bool ring_remove_left(void *removed, int directory, const char *name)
{
	if (ring_is_left(directory, name))
		*(int *)removed += unlinkat(directory, name, 0) == 0;
	return true;
}

int rings_remove_left(int directory)
{
	int removed = 0;

	(void)listing_read(directory, ring_remove_left, &removed);
	return removed;
}

/* Returns whether this process looks for rings that may go: one of sixteen of the live ones does,
 * because it takes as long as there are processes. */
static bool looks_for_rings(const struct segment *segment)
{
	const struct segment_header *header = &segment->file->header;
	unsigned int live = 0;

	for (int row = 0; row < rows_of(header); row++)
		live += (unsigned int)__builtin_popcountll(header->live[row]);
	return segment->begins_run || segment->slot->started_ns / 1000 % (live / 16 + 1) == 0;
}

void segment_remove_rings(struct segment *segment)
{
	int directory = -1;

	if (!atomic_exchange(&segment->has_removed_rings, true) && looks_for_rings(segment))
		directory = directory_open_path(segment->directory, 0, NULL, 0);
	if (directory < 0)
		return;
	rings_remove(directory, segment->file->header.job, segment->file,
	             segment->begins_run ? 0 : RING_KEPT);
	close(directory);
}
