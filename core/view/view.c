/* SPDX-License-Identifier: MIT */
/*
 * What those who look see: a copy of the segment, taken by pread, made consistent; what is shown of
 * it: summary.h.
 *
 * Nothing is mapped (a truncated file would be SIGBUS) and nothing written. Seats come and go under
 * header.sequence, so a copy during which it moved is taken again; one left odd by a killed or
 * stopped process stands still, and the copy is repaired as the next holder of the lock would
 * repair the file. A counter is an aligned word, which the kernel copies whole; those that belong
 * together are read again until no change of them was under way, or their process has had time to
 * end one and must be stopped or killed. A process lives when its seat's futex word says so
 * (seat_owner_lives): the mutex's own truth, readable without a trylock, and unlike pids and record
 * locks right across pid namespaces, fork and closed descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "core/state/before.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/refuse.h"
#include "core/view/summary.h"

uint64_t segment_view_patience_ns = 30000000;

#define READ_STILL_NS 50000000ull

enum { READ_FACTS_TRIES = 100, READ_PAUSE_NS = 1000000, READ_COUNTERS_PAUSE_NS = 20000 };

/* Reads so many bytes. Returns 0 or a negative errno; -EPROTO: the file is shorter. */
static int read_fully(int fd, void *buf, size_t size, off_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t length = pread(fd, (char *)buf + done, size - done, offset + (off_t)done);
		if (length < 0 && errno != EINTR)
			return -errno;
		if (length == 0)
			return -EPROTO;
		if (length > 0)
			done += (size_t)length;
	}
	return 0;
}

/*
 * Reads the counters of one process on one device. They are whole when as many changes had ended
 * before they were read as had begun thereafter.
 */
static int read_counters(int fd, off_t at, struct counters *counters, bool *is_whole)
{
	uint64_t ended, begun;
	int error =
	    read_fully(fd, &ended, sizeof ended, at + (off_t)offsetof(struct counters, ended));

	atomic_thread_fence(memory_order_acquire);
	if (!error)
		error = read_fully(fd, counters, sizeof *counters, at);
	atomic_thread_fence(memory_order_acquire);
	if (!error)
		error = read_fully(fd, &begun, sizeof begun,
		                   at + (off_t)offsetof(struct counters, begun));
	if (!error)
		*is_whole = ended == begun;
	return error;
}

/* Returns where in the file a part of its copy is. */
static off_t place_of(const struct segment_file *copy, const void *part)
{
	return (const char *)part - (const char *)copy;
}

/* Reads counters that belong together, together; sooner or later as they are. */
static int read_whole_counters(int fd, const struct segment_file *copy, struct counters *counters,
                               struct deadline *until)
{
	bool is_whole = false;
	int error;

	do {
		error = read_counters(fd, place_of(copy, counters), counters, &is_whole);
	} while (!error && !is_whole && deadline_nap(until, READ_COUNTERS_PAUSE_NS));
	return error;
}

/*
 * Reads the facts of one ledger, as they were at one time, and then its words. *is_whole: false
 * where the former could not be had.
 */
static int read_ledger(int fd, off_t at, struct ledger *ledger, bool *is_whole)
{
	const off_t words = offsetof(struct ledger, charged);
	uint64_t before, after = 0;
	int error = 0;

	*is_whole = false;
	for (int tries = 0; !error && !*is_whole && tries < READ_FACTS_TRIES; tries++) {
		error = read_fully(fd, &before, sizeof before, at);
		atomic_thread_fence(memory_order_acquire);
		if (!error)
			error = read_fully(fd, ledger, (size_t)words, at);
		atomic_thread_fence(memory_order_acquire);
		if (!error)
			error = read_fully(fd, &after, sizeof after, at);
		atomic_store(&ledger->facts.turn, before);
		*is_whole = !error && before == after;
	}
	return error ? error
	             : read_fully(fd, ledger->charged, sizeof *ledger - (size_t)words, at + words);
}

/* Reads a process and its figures. */
static int read_seat(int fd, struct job_copy *job, int number, struct deadline *until)
{
	struct deadline none = DEADLINE_IN(0);
	bool is_live = seat_state(&job->file.header, number) == SEAT_LIVE;
	struct segment_file *copy = &job->file;
	struct segment_seat *seat = seat_of(copy, number);
	int error = read_fully(fd, seat, sizeof *seat, place_of(copy, seat));

	job->changing[number] = 0;
	for (int d = 0; !error && d < devices_of(&copy->header); d++) {
		struct segment_books *books = books_of(copy, number, d);
		bool is_whole;

		error = read_whole_counters(fd, copy, &books->counters, is_live ? until : &none);
		if (!error)
			error = read_ledger(fd, place_of(copy, &books->ledger), &books->ledger,
			                    &is_whole);
		if (!error)
			error = read_fully(fd, &books->placed, sizeof books->placed,
			                   place_of(copy, &books->placed));
		if (!error)
			job->changing[number] |= (uint16_t)(!is_whole << d);
	}
	return error;
}

/* Reads a copy, checked, of all that is in use, while seats neither come nor go. */
static int read_still(int fd, const char *name, struct job_copy *job, char *message, size_t size)
{
	struct segment_header *header = &job->file.header;
	struct deadline still = DEADLINE_IN(READ_STILL_NS);
	struct deadline whole = DEADLINE_IN(segment_view_patience_ns);
	const off_t at = offsetof(struct segment_header, sequence);
	uint64_t after = 0;
	bool is_last;

	do {
		struct stat found;
		int error;

		is_last = deadline_has_passed(&still);
		error = read_fully(fd, header, sizeof *header, 0);
		if (!error && file_status_of(fd, &found) != 0)
			error = -errno;
		if (!error) {
			error = segment_check(header, (uint64_t)found.st_size, name, message, size);
			if (error)
				return error;
			error = read_fully(fd, job->file.export, sizeof job->file.export,
			                   offsetof(struct segment_file, export));
		}
		for (int n = -1; !error && (n = seats_next(header, n, SEATS_ALL)) >= 0;)
			error = read_seat(fd, job, n, &whole);
		if (!error)
			error = read_fully(fd, &after, sizeof after, at);
		if (error)
			return state_refuse(error, message, size, "segment of job %s: %s", name,
			                    error == -EPROTO ? "cut short" : strerror(-error));
		if (header->sequence == after && (after % 2 == 0 || is_last))
			return 0;
		deadline_nap(&still, READ_PAUSE_NS);
	} while (!is_last);
	return state_refuse(-EBUSY, message, size, "segment of job %s: %s", name, strerror(EBUSY));
}

static bool seats_are_valid(const struct segment_file *copy)
{
	for (int n = -1; (n = seats_next(&copy->header, n, SEATS_ALL)) >= 0;) {
		const struct segment_seat *seat = seat_of(copy, n);

		if (!memchr(seat->command, '\0', sizeof seat->command) ||
		    !memchr(seat->complaint, '\0', sizeof seat->complaint))
			return false;
	}
	return true;
}

/*
 * Makes text printable. What a program wrote is read by others, root among them: it drives no
 * terminal of theirs.
 */
static void make_printable(struct segment_file *copy)
{
	printable(copy->header.labels);
	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		struct segment_device *device = &copy->header.device[i];
		printable(device->uuid);
		printable(device->pci_bus_id);
		printable(device->name);
	}
	printable(copy->header.shared_by);
	for (int n = -1; (n = seats_next(&copy->header, n, SEATS_ALL)) >= 0;) {
		printable(seat_of(copy, n)->command);
		printable_lines(seat_of(copy, n)->complaint);
	}
}

/* Reads a checked and repaired copy of the job's segment. Returns 0, or a negative errno and
 * message. */
static int read_copy(int directory, const char *job, struct job_copy *read, char *message,
                     size_t size)
{
	struct segment_file *copy = &read->file;
	uint64_t file_size = 0;
	struct stat found;
	int fd = segment_open(directory, job, O_RDONLY, &copy->header, &file_size, message, size);
	if (fd < 0)
		return fd;
	int error = file_status_of(fd, &found) != 0 ? -errno : 0;
	read->owner = found.st_uid;
	if (!error &&
	    (copy->header.version != SEGMENT_VERSION_BEFORE || before_read(fd, job, copy) != 0))
		error = read_still(fd, job, read, message, size);
	close(fd);
	if (!error && !seats_are_valid(copy))
		error = state_refuse(-EPROTO, message, size, "segment of job %s is damaged", job);
	if (!error) {
		segment_repair(copy);
		make_printable(copy);
	}
	return error;
}

int segment_read(const char *job, struct segment_view *view, char *message, size_t size)
{
	if (directory_check_name(job) != 0)
		return state_refuse(-EINVAL, message, size, "not a job name: %s", job ? job : "");
	/* as large as a job can be; of what is not read there are no pages */
	struct job_copy *copy = mmap(NULL, sizeof *copy, PROT_READ | PROT_WRITE,
	                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (copy == MAP_FAILED)
		return state_refuse(-ENOMEM, message, size, "job %s: %s", job, strerror(ENOMEM));
	int directory = directory_open(0, message, size);
	int error = directory < 0 ? directory : read_copy(directory, job, copy, message, size);
	if (directory >= 0)
		close(directory);
	if (!error && summary_of(copy, view) != 0)
		error = state_refuse(-ENOMEM, message, size, "job %s: %s", job, strerror(ENOMEM));
	munmap(copy, sizeof *copy);
	return error;
}

void segment_view_free(struct segment_view *view)
{
	if (view)
		free(view->process);
	free(view);
}
