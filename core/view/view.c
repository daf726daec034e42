/*
 * What those who look see: a copy of the segment, taken by pread, made consistent; what is shown of
 * it: summary.h.
 *
 * Nothing is mapped (a truncated file would be SIGBUS) and nothing written. Seats come and go under
 * header.sequence, so a copy during which it moved is taken again; one left odd by a killed or
 * stopped process stands still, and the copy is repaired as the next holder of the lock would
 * repair the file. A counter is an aligned word, which the kernel copies whole; those that belong
 * together are read again until no change of them was under way, or so often that its process must
 * be stopped or killed within one. This is the one patience that is counted in looks and is no
 * deadline: where the machine stands still between two looks a writer has had no time to end its
 * change, so a deadline would take a living writer for a dead one; and whoever waits here has only
 * asked for figures. A process lives when its seat's futex word says so (seat_owner_lives): the
 * mutex's own truth, readable without a trylock, and unlike pids and record locks right across pid
 * namespaces, fork and closed descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/printable.h"
#include "core/state/before.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/refuse.h"
#include "core/view/summary.h"

uint64_t segment_view_naps = 500;

enum {
	READ_TRIES = 50,
	READ_FACTS_TRIES = 100,
	READ_PAUSE_NS = 1000000,
	READ_COUNTERS_PAUSE_NS = 20000
};

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

/* Counters that belong together, together. The rest of the file was read. */
static int read_whole_counters(int fd, struct segment_file *copy, uint64_t *naps)
{
	uint32_t devices = atomic_load(&copy->header.device_count);

	for (int i = 0; i < SEGMENT_SEATS; i++) {
		struct segment_seat *seat = &copy->seat[i];
		for (uint32_t d = 0; seat->state == SEAT_LIVE && d < devices; d++) {
			off_t at = (const char *)&seat->counters[d] - (const char *)copy;
			bool is_whole = false;
			for (;;) {
				int error = read_counters(fd, at, &seat->counters[d], &is_whole);
				if (error)
					return error;
				if (is_whole || !*naps)
					break;
				(*naps)--;
				deadline_sleep(READ_COUNTERS_PAUSE_NS);
			}
		}
	}
	return 0;
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

static int read_ledgers(int fd, struct job_copy *job)
{
	struct segment_file *copy = &job->file;
	uint32_t devices = atomic_load(&copy->header.device_count);

	for (int i = 0; i < SEGMENT_SEATS; i++) {
		struct segment_seat *seat = &copy->seat[i];

		job->changing[i] = 0;
		for (uint32_t d = 0; seat->state == SEAT_LIVE && d < devices; d++) {
			off_t at = (const char *)&seat->ledger[d] - (const char *)copy;
			bool is_whole;
			int error = read_ledger(fd, at, &seat->ledger[d], &is_whole);

			if (error)
				return error;
			job->changing[i] |= (uint16_t)(!is_whole << d);
		}
	}
	return 0;
}

/* Reads the whole file while seats neither come nor go. */
static int read_still(int fd, struct job_copy *job)
{
	struct segment_file *copy = &job->file;
	const off_t at = offsetof(struct segment_header, sequence);
	uint64_t before, after, naps = segment_view_naps;

	for (int tries = 0;; tries++) {
		int error = read_fully(fd, &before, sizeof before, at);
		if (!error)
			error = read_fully(fd, copy, sizeof *copy, 0);
		bool has_devices = atomic_load(&copy->header.device_count) <= SEGMENT_DEVICES;
		if (!error && has_devices)
			error = read_whole_counters(fd, copy, &naps);
		if (!error && has_devices)
			error = read_ledgers(fd, job);
		if (!error)
			error = read_fully(fd, &after, sizeof after, at);
		if (error)
			return error;
		bool last = tries == READ_TRIES;
		if (before == after && (before % 2 == 0 || last))
			return 0;
		if (last)
			return -EBUSY;
		deadline_sleep(READ_PAUSE_NS);
	}
}

static bool seats_are_valid(const struct segment_file *copy)
{
	for (int i = 0; i < SEGMENT_SEATS; i++) {
		const struct segment_seat *seat = &copy->seat[i];
		if (seat->state > SEAT_DRAINING ||
		    !memchr(seat->command, '\0', sizeof seat->command) ||
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
	for (int i = 0; i < SEGMENT_SEATS; i++) {
		printable(copy->seat[i].command);
		printable_lines(copy->seat[i].complaint);
	}
}

/*
 * Reads a checked and repaired copy of the job's segment. Returns 0, or a negative errno and
 * message.
 */
static int read_copy(int directory, const char *job, struct job_copy *read, char *message,
                     size_t size)
{
	struct segment_file *copy = &read->file;
	uint64_t file_size = 0;
	int fd = segment_open(directory, job, O_RDONLY, &copy->header, &file_size, message, size);
	if (fd < 0)
		return fd;
	/* checked before the rest is read, and again after: it may have changed */
	int error = segment_check(&copy->header, file_size, job, message, size);
	if (!error) {
		error = read_still(fd, read);
		if (error)
			state_refuse(error, message, size, "segment of job %s: %s", job,
			             error == -EPROTO ? "cut short" : strerror(-error));
		else
			error = segment_check(&copy->header, file_size, job, message, size);
	}
	close(fd);
	if (!error && !seats_are_valid(copy))
		error = state_refuse(-EPROTO, message, size, "segment of job %s is damaged", job);
	if (!error) {
		segment_repair(copy);
		make_printable(copy);
	}
	return error;
}

static struct job_copy *new_copy(void)
{
	return aligned_alloc(_Alignof(struct job_copy), sizeof(struct job_copy));
}

int segment_read(const char *job, struct segment_view *view, char *message, size_t size)
{
	if (directory_check_name(job) != 0)
		return state_refuse(-EINVAL, message, size, "not a job name: %s", job ? job : "");
	struct job_copy *copy = new_copy();
	if (!copy)
		return state_refuse(-ENOMEM, message, size, "job %s: %s", job, strerror(ENOMEM));
	int error = 0, directory = directory_open(0, message, size);
	bool is_before = false;
	if (directory < 0)
		error = directory;
	if (!error) {
		is_before = segment_read_before(directory, job, view) == 0;
		error = is_before ? 0 : read_copy(directory, job, copy, message, size);
		close(directory);
	}
	if (!error && !is_before)
		summary_of(copy, view);
	free(copy);
	return error;
}
