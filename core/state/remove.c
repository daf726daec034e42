/* SPDX-License-Identifier: MIT */
/*
 * Removing a job's files, once no process is in it. It is done under the job lock, so that no
 * process opens them meanwhile. A word in the segment says so, and a process that has opened it
 * takes no slot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/lock.h"
#include "core/state/before.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/listing.h"
#include "core/state/ring_files.h"

/* The kernel gives the job lock up with any descriptor of its file that the process closes. */
static LOCK_OF(REMOVING) removing = LOCK_FREE;

/*
 * Returns -EBUSY while a process lives, or a dead one may still hold memory; else 0, and no process
 * takes a slot any more, for which no job lock is needed.
 */
static int close_if_over(struct segment_file *file)
{
	int error = segment_lock(file);
	if (error)
		return error;
	/* a death that no process noticed yet begins to drain */
	if (slots_any_lives(file) || slots_next(&file->header, -1, SLOTS_ALL) >= 0)
		error = -EBUSY;
	atomic_store(&file->header.is_removed, !error);
	segment_unlock(file);
	return error;
}

/*
 * Returns 0 when no process has the segment of a version that cannot be read. Else returns -EBUSY,
 * or error where it is none, or that is not known. unnamed: it may be a job with a name.
 */
static int judge_other(int directory, const char *job, bool unnamed, int error)
{
	uint32_t version;
	enum other_life life = segment_other_version(directory, job, &version);

	if (life == OTHER_LIVES || (life == OTHER_OVER && unnamed))
		return -EBUSY;
	return life == OTHER_OVER ? 0 : error;
}

/*
 * Returns 0 when the job of the file is over, and ends its segment; else -EBUSY or another negative
 * errno. unnamed: -EBUSY also for a job with a name.
 */
static int end_if_over(int directory, const char *job, bool unnamed)
{
	struct segment_header header = {0};
	uint64_t file_size = 0;

	int fd = segment_open(directory, job, O_RDWR, &header, &file_size, NULL, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	int error = segment_check(&header, file_size, job, NULL, 0);
	bool is_over;
	if (error && segment_is_of_before(directory, job, &is_over)) {
		close(fd);
		return is_over && (!unnamed || header.is_unnamed) ? 0 : -EBUSY;
	}
	if (error) {
		close(fd);
		return judge_other(directory, job, unnamed, error);
	}
	if (unnamed && !atomic_load(&header.is_unnamed))
		error = -EBUSY;
	if (!error && segment_is_of_this_boot(header.boot_id)) {
		struct segment_file *file = segment_map(fd);
		error = file ? close_if_over(file) : -errno;
		if (file)
			munmap(file, sizeof *file);
	}
	close(fd);
	return error;
}

bool segment_remove_override(int directory, const char *job)
{
	char name[SEGMENT_FILE_NAME_MAX];

	snprintf(name, sizeof name, "%s.override.ini", job);
	return unlinkat(directory, name, 0) == 0;
}

/*
 * Removes the override, the pause, surveys, refusals and rings of events, and, if segment_too, the
 * segment.
 */
static int remove_files(int directory, const char *job, bool segment_too)
{
	char name[SEGMENT_FILE_NAME_MAX];
	bool removed = segment_remove_override(directory, job);

	snprintf(name, sizeof name, "%s.pause.ini", job);
	removed |= unlinkat(directory, name, 0) == 0;

	for (int i = 0; i < SEGMENT_DEVICES; i++) {
		snprintf(name, sizeof name, "%s.survey-%d", job, i);
		removed |= unlinkat(directory, name, 0) == 0;
	}
	snprintf(name, sizeof name, "%s.refused", job);
	unlinkat(directory, name, 0);
	rings_remove(directory, job, NULL, 0);
	if (segment_too) {
		snprintf(name, sizeof name, "%s.segment", job);
		removed |= unlinkat(directory, name, 0) == 0;
	}
	return removed ? 0 : -ENOENT;
}

static int remove_job(const char *job, bool unnamed)
{
	int directory = directory_open(0, NULL, 0);
	if (directory < 0)
		return directory;
	int lock = segment_job_lock(directory, job), error = lock;
	if (lock >= 0)
		error = end_if_over(directory, job, unnamed);
	if (!error)
		error = remove_files(directory, job, true);
	if (lock >= 0)
		close(lock);
	close(directory);
	return error;
}

int segment_remove(const char *job)
{
	return directory_check_name(job) == 0 ? remove_job(job, false) : -EINVAL;
}

/*
 * Returns whether there is another process than the calling one: one that lives and does not exit,
 * or, unless those alone are asked for, any whose memory may still be held. Under the lock.
 */
static bool has_others(const struct segment *segment, bool staying_alone)
{
	const struct segment_file *file = segment->file;

	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_ALL)) >= 0;) {
		const struct segment_slot *slot = slot_of(file, n);
		bool stays = !slot_is(file->header.draining, n) &&
		             !atomic_load(&slot->exiting_ns) && slot_owner_lives(slot);

		if (n != segment->number && (stays || !staying_alone))
			return true;
	}
	return false;
}

/* Returns whether anything is charged; under the lock. The dead that drain, and the caller, are in
 * the totals. */
static bool is_anything_charged(const struct segment_file *file)
{
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		for (int s = 0; s < SEGMENT_TIERS; s++)
			if (quota_charged(file, d, (enum segment_tier)s))
				return true;
	return false;
}

int segment_remove_own(struct segment *segment)
{
	struct segment_file *file = segment->file;
	const char *job = file->header.job;
	bool is_shared = file->header.shared_by[0] != '\0', is_held = false;
	/* Known with any environment. */
	int directory = directory_open_path(segment->directory, 0, NULL, 0);
	if (directory < 0)
		return directory;
	lock_acquire(&removing);
	int lock = segment_job_lock(directory, job);
	int error = lock < 0 ? lock : segment_lock(file);
	if (!error) {
		slots_probe(file);
		is_held = is_shared && is_anything_charged(file);
		error = has_others(segment, is_shared) ? -EBUSY : 0;
		atomic_store(&file->header.is_removed, !error && !is_held);
		segment_unlock(file);
	}
	if (!error)
		error = remove_files(directory, job, !is_held);
	if (lock >= 0)
		close(lock);
	lock_release(&removing);
	close(directory);
	return error;
}

static int remove_if_left(void *own, const char *job)
{
	lock_acquire(&removing);
	if (strcmp(job, own) != 0)
		(void)remove_job(job, true);
	lock_release(&removing);
	return 0;
}

/*
 * Removes an unfinished segment. Its maker has its job's lock: with that lock there is no maker,
 * and an unfinished file stays so.
 */
static void remove_unfinished(int directory, const char *name)
{
	static const char ending[] = ".unfinished";
	size_t length = strlen(name), tail = sizeof ending - 1;
	char job[SEGMENT_FILE_NAME_MAX];
	int lock;

	if (name[0] != '.' || length <= tail + 1 || length >= sizeof job ||
	    strcmp(name + length - tail, ending) != 0)
		return;
	segment_copy_text(job, length - tail, name + 1);
	if (directory_check_name(job) != 0)
		return;
	lock_acquire(&removing);
	lock = segment_job_lock(directory, job);
	if (lock >= 0) {
		unlinkat(directory, name, 0);
		close(lock);
	}
	lock_release(&removing);
}

static bool remove_one_unfinished(void *cookie, int directory, const char *name)
{
	(void)cookie;
	remove_unfinished(directory, name);
	return true;
}

static void remove_all_unfinished(void)
{
	int directory = directory_open(0, NULL, 0);

	if (directory < 0)
		return;
	(void)listing_read(directory, remove_one_unfinished, NULL);
	close(directory);
}

void segment_remove_left(const struct segment *segment)
{
	segment_list(remove_if_left, (void *)segment->file->header.job);
	remove_all_unfinished();
}
