/* SPDX-License-Identifier: MIT */
/*
 * Writing events.
 *
 * Runs inside the user's process. ring_write() may be called anywhere: it takes no lock, waits for
 * nothing and allocates nothing. Where the kernel offers a clock page it makes no system call,
 * except the one by which the ring grows.
 */
#include "core/rings/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/once.h"
#include "core/base/shared_file.h"
#include "core/rings/ring_layout.h"
#include "core/state/directory.h"

/* Callers hold the mapped file. */
struct ring {
	struct ring_file file;
};

_Atomic(struct ring *) event_ring;

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct once is_made;
static void (*_Atomic prepared)(void);
static _Atomic bool has_begun;

static void make_prepared(void)
{
	void (*make)(void) = atomic_load(&prepared);

	make();
}

void ring_begin(void)
{
	atomic_store(&has_begun, true);
	if (atomic_load(&prepared))
		once_call(&is_made, make_prepared);
}

void ring_prepare(void (*make)(void))
{
	atomic_store(&prepared, make);
	if (atomic_load(&has_begun))
		ring_begin();
}

/* Gives the rest of the ring its pages, before its first places are used again. Where there is no
 * room for them it stays as it is. */
static void ring_grow(struct ring *ring)
{
	int saved = errno;
	const struct ring_header *header = &ring->file.header;
	struct ring_record *rest = &ring->file.record[RING_RECORDS_FIRST];

	if (madvise(rest, (RING_RECORDS - RING_RECORDS_FIRST) * sizeof *rest,
	            MADV_POPULATE_WRITE) == 0)
		atomic_store_explicit(&ring->file.header.records, RING_RECORDS,
		                      memory_order_release);
	else
		log_once(LOG_WARNING,
		         "the state directory has no room for all of %s.%d-%016" PRIx64
		         ".events: only the last %d events are kept",
		         header->job, header->pid, header->started_ns, RING_RECORDS_FIRST);
	errno = saved;
}

#define PUT(field, what) atomic_store_explicit(&(field), what, memory_order_relaxed)

void ring_write(struct ring *ring, const struct event *event)
{
	uint64_t ticket =
	    atomic_fetch_add_explicit(&ring->file.header.next, 1, memory_order_relaxed);
	uint32_t room =
	    atomic_load_explicit(&ring->file.header.records, memory_order_acquire) == RING_RECORDS
	        ? RING_RECORDS
	        : RING_RECORDS_FIRST;
	struct ring_record *record = &ring->file.record[ticket % room];
	uint64_t begin = event->begin_ns ? event->begin_ns : clock_now();
	uint64_t found = atomic_load_explicit(&record->sequence, memory_order_relaxed);

	/* Before the record, which may be lost below. */
	if (ticket == RING_RECORDS_FIRST / 4 && room < RING_RECORDS)
		ring_grow(ring);
	/* Another thread is at work here, or came after us and was quicker: our record is lost. */
	if ((found & 1) || found > 2 * ticket ||
	    !atomic_compare_exchange_strong_explicit(&record->sequence, &found, 2 * ticket + 1,
	                                             memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	PUT(record->begin_ns, begin);
	PUT(record->duration_ns, event->duration_ns);
	PUT(record->value[0], event->a);
	PUT(record->value[1], event->b);
	PUT(record->value[2], event->c);
	PUT(record->object, event->object);
	PUT(record->what, ring_pack(event));
	atomic_store_explicit(&record->sequence, 2 * ticket + 2, memory_order_release);
}

/* Fills the header of a new file, which is all zero. */
static void ring_initialise(struct ring_header *header, const struct segment *segment)
{
	const struct segment_slot *slot = segment->slot;

	shared_file_write_head(&ring_format, header);
	header->size = ring_format.size;
	memcpy(header->boot_id, segment->file->header.boot_id, sizeof header->boot_id);
	segment_copy_text(header->job, sizeof header->job, segment->file->header.job);
	memcpy(header->command, slot->command, sizeof header->command);
	header->pid = slot->pid;
	header->started_ns = slot->started_ns;
	memset(header->device, -1, sizeof header->device);
	header->realtime_ns = clock_of_day();
	header->monotonic_ns = clock_now();
}

/* Makes a ring. It gets its name when it is complete. */
static int ring_make(const struct segment *segment, int directory, const char *name,
                     struct ring **ring)
{
	char unfinished[RING_NAME_MAX + 1];
	const size_t first = offsetof(struct ring_file, record[RING_RECORDS_FIRST]);
	struct ring *made = MAP_FAILED;
	bool is_whole;
	int error;

	snprintf(unfinished, sizeof unfinished, ".%s", name);
	int fd = shared_file_begin(directory, unfinished);
	if (fd < 0)
		return fd;
	error = shared_file_reserve(fd, 0, first);
	if (!error) /* the last page gives it its size */
		error = shared_file_reserve(fd, sizeof *made - SEGMENT_PAGE, SEGMENT_PAGE);
	if (!error) {
		made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		error = made == MAP_FAILED ? -errno : 0;
	}
	is_whole = !error && madvise(made, SEGMENT_PAGE, MADV_POPULATE_WRITE) != 0;
	if (is_whole) /* it could not grow */
		error = shared_file_reserve(fd, 0, sizeof *made);
	if (!error) {
		ring_initialise(&made->file.header, segment);
		made->file.header.records = is_whole ? RING_RECORDS : RING_RECORDS_FIRST;
		error = shared_file_complete(fd, directory, unfinished, name, 0600);
	}
	close(fd);
	if (!error) {
		*ring = made;
		return 0;
	}
	if (made != MAP_FAILED)
		munmap(made, sizeof *made);
	unlinkat(directory, unfinished, 0);
	return error;
}

int ring_create(const struct segment *segment, struct ring **ring, char *message, size_t size)
{
	struct ring_id id = {.pid = segment->slot->pid, .started_ns = segment->slot->started_ns};
	char name[RING_NAME_MAX];
	int directory, error;

	memcpy(id.job, segment->file->header.job, sizeof id.job);
	ring_name(&id, name, sizeof name);
	directory = directory_open_path(segment->directory, 0, message, size);
	if (directory < 0)
		return directory;
	error = ring_make(segment, directory, name, ring);
	close(directory);
	if (error)
		return state_refuse(error, message, size, "%s/%s: cannot be made: %s",
		                    segment->directory, name, strerror(-error));
	return 0;
}

void ring_name_device(struct ring *ring, int ordinal, int index)
{
	if (ordinal >= 0 && ordinal < SEGMENT_DEVICES && index >= 0 && index < SEGMENT_DEVICES)
		ring->file.header.device[ordinal] = (int8_t)index;
}
