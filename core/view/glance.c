/* SPDX-License-Identifier: MIT */
/*
 * A glance at a segment. Runs inside the user's process.
 *
 * The header's sums are right as long as a process lives that looks after them every second, so one
 * is looked for: the one that was found last, mostly.
 */
#include "core/view/glance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "core/state/layout.h"

static bool slot_lives(int fd, const struct segment_header *header, int number)
{
	struct segment_slot slot;
	off_t at = (off_t)offsetof(struct segment_file,
	                           row[number / SEGMENT_ROW].slot[number % SEGMENT_ROW]);

	return slot_state(header, number) == SLOT_LIVE &&
	       pread(fd, &slot, sizeof slot, at) == (ssize_t)sizeof slot && slot_owner_lives(&slot);
}

static bool somebody_lives(int fd, const struct segment_header *header)
{
	static _Atomic int last;
	int found = atomic_load_explicit(&last, memory_order_relaxed);

	if (slot_lives(fd, header, found))
		return true;
	for (int n = -1; (n = slots_next(header, n, SLOTS_LIVE)) >= 0;) {
		if (!slot_lives(fd, header, n))
			continue;
		atomic_store_explicit(&last, n, memory_order_relaxed);
		return true;
	}
	return false;
}

/*
 * Returns whether the file was written since the machine was started. In an older file, processes
 * of today may have the numbers of the processes that it lists.
 */
static bool is_of_this_boot(const struct segment_header *header)
{
	static _Atomic uint64_t known;

	if (atomic_load_explicit(&known, memory_order_relaxed) == header->token)
		return true;
	if (!segment_is_of_this_boot(header->boot_id))
		return false;
	atomic_store_explicit(&known, header->token, memory_order_relaxed);
	return true;
}

static int glance_read_header(int directory, const char *job, struct segment_header *header)
{
	uint64_t file_size = 0, after = 0;
	int fd = segment_open(directory, job, O_RDONLY, header, &file_size, NULL, 0), error;

	if (fd < 0)
		return fd;
	error = segment_check(header, file_size, job, NULL, 0);
	/*
	 * While a process joins or leaves, the sequence is odd, and the sums may have half of its
	 * figures.
	 */
	if (!error && (header->sequence % 2 != 0 || header->device_count > SEGMENT_DEVICES ||
	               !is_of_this_boot(header) || !somebody_lives(fd, header) ||
	               pread(fd, &after, sizeof after, offsetof(struct segment_header, sequence)) !=
	                   (ssize_t)sizeof after ||
	               after != header->sequence))
		error = -EAGAIN;
	if (!error)
		segment_read_open_totals(fd, header);
	close(fd);
	return error;
}

int segment_glance(const char *job, struct segment_glance *glance)
{
	struct segment_header *header;
	int error, directory;

	if (directory_check_name(job) != 0)
		return -EINVAL;
	directory = directory_open(0, NULL, 0);
	if (directory < 0)
		return directory;
	header = aligned_alloc(_Alignof(struct segment_header), sizeof *header);
	error = header ? glance_read_header(directory, job, header) : -ENOMEM;
	close(directory);
	if (!error) {
		glance->device_count = devices_of(header);
		memcpy(glance->charged, header->charged, sizeof glance->charged);
		for (int d = 0; d < glance->device_count; d++) {
			segment_copy_text(glance->uuid[d], sizeof glance->uuid[d],
			                  header->device[d].uuid);
			glance->limit[d] = header->applied[d].limit;
		}
	}
	free(header);
	return error;
}
