/*
 * Removing a job's files, once nobody is in it: under the job lock, so that nobody joins meanwhile.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "core/state/ring_layout.h"

/* -EBUSY while a process other than `but` lives, or a dead one's memory may still be held. */
static int check_is_over(struct segment_file *file, const struct segment_slot *but)
{
	int error = segment_lock(file);
	if (error)
		return error;
	/* probed and not only looked at: a death nobody noticed yet begins to drain */
	slots_probe(file);
	for (int i = 0; i < SEGMENT_SLOTS; i++)
		if (&file->slot[i] != but && atomic_load(&file->slot[i].state) != SLOT_FREE)
			error = -EBUSY;
	segment_unlock(file);
	return error;
}

/* unnamed: -EBUSY for a job that somebody named. */
static int check_file_is_over(int directory, const char *job, bool unnamed)
{
	struct segment_header header = {0};
	uint64_t file_size = 0;

	int fd = segment_open(directory, job, O_RDWR, &header, &file_size, NULL, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	int error = segment_check(&header, file_size, job, NULL, 0);
	if (!error && unnamed && !atomic_load(&header.is_unnamed))
		error = -EBUSY;
	if (!error && segment_is_of_this_boot(&header)) {
		struct segment_file *file = segment_map(fd);
		error = file ? check_is_over(file, NULL) : -errno;
		if (file)
			munmap(file, sizeof *file);
	}
	close(fd);
	return error;
}

/* own: the caller's hold on the job, whose directory is known whatever became of the environment; or NULL. */
static int remove_job(const char *job, struct segment *own, bool unnamed)
{
	char name[SEGMENT_FILE_NAME_MAX];
	int directory =
	    own ? directory_open_path(own->directory, 0, NULL, 0) : directory_open(0, NULL, 0);
	if (directory < 0)
		return directory;
	int lock = segment_job_lock(directory, job), error = lock;
	if (lock >= 0)
		error = own ? check_is_over(own->file, own->slot)
		            : check_file_is_over(directory, job, unnamed);
	if (!error) {
		snprintf(name, sizeof name, "%s.segment", job);
		bool removed = unlinkat(directory, name, 0) == 0;
		snprintf(name, sizeof name, "%s.override.ini", job);
		removed |= unlinkat(directory, name, 0) == 0;
		rings_remove(directory, job, NULL, 0);
		error = removed ? 0 : -ENOENT;
	}
	if (lock >= 0)
		close(lock);
	close(directory);
	return error;
}

int segment_remove(const char *job)
{
	return directory_check_name(job) == 0 ? remove_job(job, NULL, false) : -EINVAL;
}

int segment_remove_own(struct segment *segment)
{
	return remove_job(segment->file->header.job, segment, true);
}

static int remove_if_left(void *own, const char *job)
{
	if (strcmp(job, own) != 0)
		(void)remove_job(job, NULL, true);
	return 0;
}

/* Whoever makes a segment has its job's lock: with it nobody does, and what is unfinished stays so. */
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
	lock = segment_job_lock(directory, job);
	if (lock < 0)
		return;
	unlinkat(directory, name, 0);
	close(lock);
}

static void remove_all_unfinished(void)
{
	int fd = directory_open(0, NULL, 0);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !directory)
		close(fd);
	if (!directory)
		return;
	for (const struct dirent *entry; (entry = readdir(directory));)
		remove_unfinished(dirfd(directory), entry->d_name);
	closedir(directory);
}

void segment_remove_left(struct segment *segment)
{
	segment_list(remove_if_left, segment->file->header.job);
	remove_all_unfinished();
}
