/* SPDX-License-Identifier: MIT */
/*
 * The applied limit: a job's limit on a device, how far it has risen, and the charges of its
 * processes there, for its own processes and for other jobs.
 *
 * Runs inside the user's process. The growth of a limit changes under the segment's lock, under
 * which charges are compared with it; all else takes no lock. Other jobs' files are read by pread:
 * their headers, and the words of processes that charge without the lock.
 *
 * A generation of settings is the job's: it is another one whenever a process finds other settings
 * than the last known ones of the job. A process that differs for good, by its environment, agrees
 * to the newest one each time it has looked at its files and found nothing new.
 */
#include "core/budget/applied.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

static struct segment_applied *applied_of(const struct segment *segment, int device)
{
	if (device < 0 || device >= SEGMENT_DEVICES)
		return NULL;
	return &segment->file->header.applied[device];
}

uint64_t segment_apply_limit(struct segment *segment, int device, const struct applied_limit *told)
{
	struct segment_applied *applied = applied_of(segment, device);
	uint64_t generation;
	bool is_locked;

	if (!applied)
		return told->generation + 1;
	is_locked = segment_lock(segment->file) == 0;
	if (atomic_exchange(&applied->limit, told->limit) != told->limit)
		atomic_store(&applied->grown, 0);
	generation = atomic_load(&applied->generation);
	if (atomic_exchange(&applied->settings, told->settings) != told->settings ||
	    generation <= told->generation)
		atomic_store(&applied->generation, ++generation);
	if (is_locked)
		segment_unlock(segment->file);
	return generation;
}

void segment_set_grown(struct segment *segment, int device, uint64_t limit, uint64_t bytes)
{
	struct segment_applied *applied = applied_of(segment, device);

	/* Without the lock it is judged again before long. */
	if (!applied || segment_lock(segment->file) != 0)
		return;
	if (atomic_load(&applied->limit) == limit) {
		atomic_store(&applied->grown, bytes);
		quota_note_limit(segment->file, device, limit + bytes);
	}
	segment_unlock(segment->file);
}

bool segment_judges_growth(struct segment *segment, int device, uint64_t interval_ns)
{
	struct segment_applied *applied = applied_of(segment, device);
	uint64_t now = clock_now(), before;

	if (!applied)
		return false;
	before = atomic_load(&applied->judged_ns);
	/*
	 * 0: no process has yet, on a machine that may just have booted. Later than now: another
	 * clock wrote it.
	 */
	if (before && before <= now && now - before < interval_ns)
		return false;
	return atomic_compare_exchange_strong(&applied->judged_ns, &before, now);
}

/* Returns the bytes that one job may still take of the device, by its header. */
static uint64_t owed_to(const struct segment_header *header, const char *uuid)
{
	uint64_t owed = 0;

	for (uint32_t d = 0; d < header->device_count; d++) {
		uint64_t limit = header->applied[d].limit;
		uint64_t used = header->charged[d][SEGMENT_ON_DEVICE];

		if (strncmp(header->device[d].uuid, uuid, sizeof header->device[d].uuid) != 0)
			continue;
		/* A job without a limit is owed the memory that it had to place on the host. */
		if (limit == UINT64_MAX)
			owed += header->charged[d][SEGMENT_ON_HOST];
		else if (limit > used)
			owed += limit - used;
	}
	return owed;
}

/*
 * Opens a job's file and reads its header. Does not use the common functions, because their
 * messages name the directory: this thread must not read the environment. Returns a descriptor, or
 * -1.
 */
static int open_header(int directory, const char *job, struct segment_header *header)
{
	char name[SEGMENT_FILE_NAME_MAX];
	ssize_t length;
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -1;
	length = pread(fd, header, sizeof *header, 0);
	if (length == sizeof *header &&
	    shared_file_fits(&segment_format, header, header->size) == SHARED_FITS &&
	    header->device_count <= SEGMENT_DEVICES)
		return fd;
	close(fd);
	return -1;
}

/* A question to all jobs of the state directory about one device. */
struct asking {
	const struct segment *own;
	const char *uuid;
	int directory;
	void (*of)(struct asking *asking, int fd, struct segment_header *header);
	uint64_t owed;
	struct charges *charges;
	bool is_whole; /* no memory was lacking */
};

static bool runs_now(const struct segment_header *header)
{
	uint64_t now = clock_now(), polled = header->polled_ns;

	return (polled > now ? polled - now : now - polled) < SEGMENT_SILENT_NS &&
	       segment_is_of_this_boot(header->boot_id);
}

static void ask_owed(struct asking *asking, int fd, struct segment_header *header)
{
	if (strcmp(header->job, asking->own->file->header.job) == 0 || !runs_now(header))
		return;
	segment_read_open_totals(fd, header);
	asking->owed += owed_to(header, asking->uuid);
}

static int applied_ask(void *cookie, const char *job)
{
	struct asking *asking = cookie;
	struct segment_header header;
	int fd = open_header(asking->directory, job, &header);

	if (fd >= 0) {
		asking->of(asking, fd, &header);
		close(fd);
	}
	return 0;
}

/* Asks all jobs, the own one, too. */
static void applied_ask_all(const struct segment *segment, int device, struct asking *asking)
{
	int listed;

	if (device < 0 || device >= SEGMENT_DEVICES)
		return;
	asking->own = segment;
	asking->uuid = segment->file->header.device[device].uuid;
	if (!asking->uuid[0])
		return;
	asking->directory = directory_open_path(segment->directory, 0, NULL, 0);
	if (asking->directory < 0)
		return;
	listed = fcntl(asking->directory, F_DUPFD_CLOEXEC, 0);
	if (listed >= 0)
		segment_list_in(listed, applied_ask, asking);
	close(asking->directory);
}

uint64_t segment_owed(const struct segment *segment, int device)
{
	struct asking asking = {.of = ask_owed};

	applied_ask_all(segment, device, &asking);
	return asking.owed;
}

/* --- charges --- */

static void charges_add(struct asking *asking, const struct charge *charge)
{
	struct charges *charges = asking->charges;

	if (charges->count == charges->room) {
		size_t room = charges->room ? 2 * charges->room : 16;
		struct charge *more = realloc(charges->list, room * sizeof *more);

		if (!more) {
			asking->is_whole = false;
			return;
		}
		charges->list = more;
		charges->room = room;
	}
	charges->list[charges->count++] = *charge;
}

static uint64_t charges_read_word(int fd, size_t at)
{
	uint64_t word = 0;

	return pread(fd, &word, sizeof word, (off_t)at) == (ssize_t)sizeof word ? word : 0;
}

/* Returns the charges of a slot's process on the job's device d. */
static uint64_t charges_of_slot(int fd, int slot, uint32_t d)
{
	size_t at = offsetof(struct segment_file, row[slot / SEGMENT_ROW].books[d]);

	at += offsetof(struct segment_books, ledger.charged) +
	      (size_t)(slot % SEGMENT_ROW) * sizeof(struct segment_books);
	return charges_read_word(fd, at) & ~LEDGER_OPEN;
}

static uint64_t charges_began(int fd, int slot)
{
	size_t at = offsetof(struct segment_file, row[slot / SEGMENT_ROW].slot);

	return charges_read_word(fd,
	                         at + offsetof(struct segment_slot, started_ns) +
	                             (size_t)(slot % SEGMENT_ROW) * sizeof(struct segment_slot));
}

static void charges_ask(struct asking *asking, int fd, struct segment_header *header)
{
	const struct segment *own = asking->own;
	bool is_own_job = header->token == own->file->header.token;

	for (uint32_t d = 0; d < header->device_count; d++) {
		struct charge charge = {.job = header->token, .is_own_job = is_own_job};

		if (strncmp(header->device[d].uuid, asking->uuid, sizeof header->device[d].uuid) !=
		    0)
			continue;
		charge.device = d;
		charge.slot = SEGMENT_SLOTS;
		charge.bytes = header->orphaned[d];
		charges_add(asking, &charge);
		for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;) {
			if (is_own_job && n == own->number)
				continue;
			charge.slot = (uint32_t)n;
			charge.began_ns = charges_began(fd, n);
			charge.bytes = charges_of_slot(fd, n, d);
			charges_add(asking, &charge);
		}
	}
}

bool segment_charges(const struct segment *segment, int device, struct charges *charges)
{
	struct asking asking = {.of = charges_ask, .charges = charges, .is_whole = true};
	int saved = errno, cancel;

	charges->count = 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	applied_ask_all(segment, device, &asking);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return asking.is_whole;
}

static bool charges_is_same(const struct charge *x, const struct charge *y)
{
	return x->job == y->job && x->began_ns == y->began_ns && x->slot == y->slot &&
	       x->device == y->device;
}

/* Returns the earlier charge of the same process. *from: where it is looked for first. */
static uint64_t charges_then(const struct charges *then, const struct charge *now, size_t *from)
{
	for (size_t i = 0; i < then->count; i++) {
		const struct charge *charge = &then->list[(*from + i) % then->count];

		if (!charges_is_same(charge, now))
			continue;
		*from += i + 1; /* both lists are mostly in one order */
		return charge->bytes;
	}
	return 0;
}

struct charges_change charges_change(const struct charges *then, const struct charges *now)
{
	struct charges_change change = {0};
	size_t from = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct charge *charge = &now->list[i];
		uint64_t before = charges_then(then, charge, &from);

		if (charge->bytes > before)
			change.grown += charge->bytes - before;
		else if (charge->is_own_job)
			change.fallen += before - charge->bytes;
	}
	return change;
}

bool charges_are_same(const struct charges *x, const struct charges *y)
{
	size_t from = 0;

	if (x->count != y->count)
		return false;
	for (size_t i = 0; i < y->count; i++)
		if (charges_then(x, &y->list[i], &from) != y->list[i].bytes)
			return false;
	return true;
}
