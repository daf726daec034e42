/* SPDX-License-Identifier: MIT */
/*
 * The segment's file: whether it is one, and making it.
 *
 * Runs inside the user's process. A file that does not fit is never written to: it is refused, or a
 * new file takes its name. A file under the name JOB.segment is complete, because it is made under
 * another name. A descriptor is CLOEXEC.
 *
 * Pages of a file that exists are claimed by fallocate(2), never posix_fallocate: its substitute
 * writes into live pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/bells.h"
#include "core/base/clock.h"
#include "core/base/file_status.h"
#include "core/base/shared_file.h"
#include "core/state/before.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/listing.h"

#define ROOM_OF_DEVICE sizeof(((struct segment_row *)0)->books[0])

const char *segment_path(const char *job, char *path, size_t size)
{
	if (directory_segment_path(job, path, size) != 0)
		snprintf(path, size, "segment of job %s", job);
	return path;
}

static bool file_is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

/* Returns where the pages of a row begin. */
static size_t row_at(uint32_t row)
{
	return offsetof(struct segment_file, row) + row * sizeof(struct segment_row);
}

/*
 * Returns how many bytes of a row so many devices need. A row has room for one device from the
 * beginning, because nearly every job has one.
 */
static size_t row_size(uint32_t devices)
{
	return offsetof(struct segment_row, books) + (devices ? devices : 1) * ROOM_OF_DEVICE;
}

/* Returns the least size that the file can have. */
static uint64_t file_end_of(const struct segment_header *header)
{
	uint32_t rows = header->rows, devices = header->device_count;

	if (!rows || rows > SEGMENT_ROWS || devices > SEGMENT_DEVICES)
		return sizeof *header;
	return row_at(rows - 1) + row_size(devices);
}

int segment_check(const struct segment_header *header, uint64_t file_size, const char *job,
                  char *message, size_t size)
{
	enum shared_fit fit = shared_file_fits(&segment_format, header, header->size);
	char path[512];

	segment_path(job, path, sizeof path);
	if (file_size < offsetof(struct segment_header, boot_id) || fit == SHARED_OTHER_KIND)
		return state_refuse(-EPROTO, message, size, "%s: not a segment", path);
	if (fit == SHARED_OTHER_VERSION)
		return state_refuse(
		    -EPROTO, message, size,
		    "%s: segment of version %u, expected version %d; once the job has ended "
		    "'spillway doctor --clean' removes it",
		    path, header->version, SEGMENT_VERSION);
	if (file_size < file_end_of(header))
		return state_refuse(
		    -EPROTO, message, size, "%s: segment of %llu bytes, expected %llu: damaged",
		    path, (unsigned long long)file_size, (unsigned long long)file_end_of(header));
	if (fit == SHARED_OTHER_SIZE)
		return state_refuse(
		    -EPROTO, message, size,
		    "%s: segment of %llu bytes, expected %zu: of another build; once the job has "
		    "ended 'spillway doctor --clean' removes it",
		    path, (unsigned long long)header->size, sizeof(struct segment_file));

	bool valid = file_is_terminated(header->boot_id, sizeof header->boot_id) &&
	             file_is_terminated(header->job, sizeof header->job) &&
	             file_is_terminated(header->labels, sizeof header->labels) &&
	             file_is_terminated(header->run, sizeof header->run) &&
	             file_is_terminated(header->shared_by, sizeof header->shared_by) &&
	             header->device_count <= SEGMENT_DEVICES && header->rows <= SEGMENT_ROWS &&
	             header->retiring <= header->rows * SEGMENT_ROW &&
	             strcmp(header->job, job) == 0;
	for (uint32_t i = 0; valid && i < SEGMENT_DEVICES; i++) {
		const struct segment_device *device = &header->device[i];
		valid = file_is_terminated(device->uuid, sizeof device->uuid) &&
		        file_is_terminated(device->pci_bus_id, sizeof device->pci_bus_id) &&
		        file_is_terminated(device->name, sizeof device->name);
	}
	for (uint32_t row = header->rows; valid && row < SEGMENT_ROWS; row++)
		valid = !header->live[row] && !header->draining[row];
	if (!valid)
		return state_refuse(-EPROTO, message, size, "%s: segment of job %s is damaged",
		                    path, job);
	return 0;
}

int segment_open(int directory, const char *job, int flags, struct segment_header *header,
                 uint64_t *file_size, char *message, size_t size)
{
	char name[SEGMENT_FILE_NAME_MAX], path[512];
	struct stat found;
	ssize_t length;
	int error;

	segment_path(job, path, sizeof path);
	snprintf(name, sizeof name, "%s.segment", job);
	/* NONBLOCK: it might be a pipe */
	int fd = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		error = -errno;
		return state_refuse(error, message, size, "%s: %s", path, strerror(-error));
	}
	if (file_status_of(fd, &found) != 0)
		goto failed;
	if (!S_ISREG(found.st_mode)) {
		close(fd);
		return state_refuse(-EPROTO, message, size, "%s: not a segment", path);
	}
	memset(header, 0, sizeof *header);
	length = pread(fd, header, sizeof *header, 0);
	/* Pages come before the header counts them, so the size is asked for after it was read. */
	if (length < 0 || file_status_of(fd, &found) != 0)
		goto failed;
	*file_size = (uint64_t)found.st_size;
	return fd;
failed:
	error = -errno;
	close(fd);
	return state_refuse(error, message, size, "%s: %s", path, strerror(-error));
}

struct segment_file *segment_map(int fd)
{
	void *address =
	    mmap(NULL, sizeof(struct segment_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return address == MAP_FAILED ? NULL : address;
}

int segment_reserve_row(int fd, uint32_t row, uint32_t devices)
{
	return shared_file_reserve(fd, row_at(row), row_size(devices));
}

int segment_reserve_device(int fd, uint32_t row, uint32_t device)
{
	return shared_file_reserve(fd, row_at(row) + offsetof(struct segment_row, books[device]),
	                           ROOM_OF_DEVICE);
}

/* Fills a new file, which is all zero. Returns 0 or a negative errno. */
static int file_initialise(struct segment_file *file, const char *job, bool unnamed)
{
	struct segment_header *header = &file->header;

	shared_file_write_head(&segment_format, header);
	atomic_store(&header->is_unnamed, unnamed);
	header->size = segment_format.size;
	atomic_store(&header->rows, 1);
	segment_read_boot_id(header->boot_id);
	segment_copy_text(header->job, sizeof header->job, job);
	if (getrandom(&header->token, sizeof header->token, GRND_NONBLOCK) !=
	    (ssize_t)sizeof header->token)
		header->token = clock_of_day() ^ (uint64_t)getpid() << 48;
	return segment_mutex_init(&header->lock, true);
}

/*
 * Puts an empty segment in place of none or a stale one. It gets its name when it is complete; the
 * file of a killed creator is overwritten by the next, or removed by an unnamed job (remove.c).
 */
static int file_create(int directory, const char *job, bool unnamed, struct segment_file **file,
                       char *message, size_t size)
{
	char path[512], name[SEGMENT_FILE_NAME_MAX], unfinished[SEGMENT_FILE_NAME_MAX];
	int error;

	snprintf(name, sizeof name, "%s.segment", job);
	snprintf(unfinished, sizeof unfinished, ".%s.unfinished", job);
	int fd = shared_file_begin(directory, unfinished);
	if (fd < 0) {
		error = fd;
		goto failed;
	}
	error = shared_file_reserve(fd, 0, row_at(0) + row_size(0));
	if (!error && (*file = segment_map(fd)) == NULL)
		error = -ENOMEM;
	if (!error)
		error = file_initialise(*file, job, unnamed);
	if (!error)
		error = shared_file_complete(fd, directory, unfinished, name, 0600);
	if (error)
		goto failed;
	return fd;
failed:
	if (*file)
		munmap(*file, sizeof **file);
	*file = NULL;
	if (fd >= 0) {
		close(fd);
		unlinkat(directory, unfinished, 0);
	}
	return state_refuse(error, message, size, "%s: cannot be made: %s",
	                    segment_path(job, path, sizeof path), strerror(-error));
}

int segment_put_survey(const struct segment *segment, int device, const void *text, size_t size)
{
	char name[SEGMENT_FILE_NAME_MAX], unfinished[SEGMENT_FILE_NAME_MAX + 16];
	/* The segment keeps the path of its directory, so a changed environment does not matter. */
	int directory = directory_open_path(segment->directory, 0, NULL, 0), error = directory;

	snprintf(name, sizeof name, "%s.survey-%d", segment->file->header.job, device);
	snprintf(unfinished, sizeof unfinished, ".%s.unfinished", name);
	if (directory >= 0) {
		error = shared_file_put(directory, unfinished, name, 0600, text, size);
		close(directory);
	}
	return error;
}

/* Gives a segment back the pages that were cut out of it. */
static int fill_holes(int fd, const struct segment_header *header)
{
	uint64_t pages = row_at(0) + (uint64_t)header->rows * row_size(header->device_count);
	struct stat found;
	int error;

	if (file_status_of(fd, &found) == 0 && (uint64_t)found.st_blocks * 512 >= pages)
		return 0;
	error = shared_file_refill(fd, 0, row_at(0));
	for (uint32_t row = 0; !error && row < header->rows; row++)
		error = shared_file_refill(fd, row_at(row), row_size(header->device_count));
	return error;
}

int segment_reopen(const struct segment *segment)
{
	const struct segment_header *own = &segment->file->header;
	char name[SEGMENT_FILE_NAME_MAX];
	uint64_t token = 0;
	int directory = directory_open_path(segment->directory, 0, NULL, 0), fd;

	if (directory < 0)
		return directory;
	snprintf(name, sizeof name, "%s.segment", own->job);
	fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = -errno;
	close(directory);
	if (fd >= 0 && (pread(fd, &token, sizeof token, offsetof(struct segment_header, token)) !=
	                    (ssize_t)sizeof token ||
	                token != own->token)) {
		close(fd);
		fd = -ENOENT;
	}
	return fd;
}

/* Puts a new segment in place of one of a version that cannot be read, if no process has it. */
static int replace_other(int directory, const char *job, bool unnamed, int error,
                         struct segment_file **file, char *message, size_t size)
{
	char path[512];
	uint32_t version;

	segment_path(job, path, sizeof path);
	switch (segment_other_version(directory, job, &version)) {
	case OTHER_OVER:
		return file_create(directory, job, unnamed, file, message, size);
	case OTHER_LIVES:
		return state_refuse(error, message, size,
		                    "%s: job %s runs with another Spillway (segment of "
		                    "version %u, expected version %d): start this program again "
		                    "once the job has ended, or under another job name",
		                    path, job, version, SEGMENT_VERSION);
	case OTHER_UNKNOWN:
		return state_refuse(error, message, size,
		                    "%s: segment of version %u, expected version %d, and whether "
		                    "a process uses it is not known here: let job %s end, then "
		                    "remove the file",
		                    path, version, SEGMENT_VERSION, job);
	case OTHER_NONE:
		break;
	}
	return error;
}

/*
 * Puts a new segment in place of one of the version before with no living process. A process that
 * comes while some live is told the next step: a second set of books would be a second quota.
 */
static int replace_before(int directory, const char *job, bool unnamed, int error,
                          struct segment_file **file, char *message, size_t size)
{
	char path[512];
	bool is_over;

	if (!segment_is_of_before(directory, job, &is_over))
		return replace_other(directory, job, unnamed, error, file, message, size);
	if (is_over)
		return file_create(directory, job, unnamed, file, message, size);
	return state_refuse(error, message, size,
	                    "%s: job %s runs with an earlier version of Spillway (segment of "
	                    "version %d, ours is of "
	                    "version %d): start this program again once the job has ended, or "
	                    "under another job name",
	                    segment_path(job, path, sizeof path), job, SEGMENT_VERSION_BEFORE,
	                    SEGMENT_VERSION);
}

int segment_open_or_create(int directory, const char *job, bool unnamed, struct segment_file **file,
                           char *message, size_t size)
{
	struct segment_header header = {0};
	uint64_t file_size = 0;

	int fd = segment_open(directory, job, O_RDWR, &header, &file_size, message, size);
	if (fd == -ENOENT)
		return file_create(directory, job, unnamed, file, message, size);
	if (fd < 0)
		return fd;
	int error = segment_check(&header, file_size, job, message, size);
	if (error) {
		close(fd);
		return replace_before(directory, job, unnamed, error, file, message, size);
	}
	if (!segment_is_of_this_boot(header.boot_id) || atomic_load(&header.is_removed)) {
		close(fd);
		return file_create(directory, job, unnamed, file, message, size);
	}
	error = fill_holes(fd, &header);
	if (!error && (*file = segment_map(fd)) == NULL)
		error = -errno;
	if (error) {
		char path[512];

		close(fd);
		return state_refuse(error, message, size, "%s: %s",
		                    segment_path(job, path, sizeof path), strerror(-error));
	}
	return fd;
}

void segment_ring(const char *job)
{
	struct segment_header header = {0}, *mapped;
	uint64_t file_size = 0;
	int directory = directory_open(0, NULL, 0), fd;

	if (directory < 0)
		return;
	fd = segment_open(directory, job, O_RDWR, &header, &file_size, NULL, 0);
	close(directory);
	if (fd < 0)
		return;
	if (segment_check(&header, file_size, job, NULL, 0) == 0) {
		mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (mapped != MAP_FAILED) {
			atomic_fetch_add(&mapped->bell, 1);
			bells_ring(&mapped->bell);
			munmap(mapped, sizeof *mapped);
		}
	}
	close(fd);
}

struct segment_listing {
	int (*found)(void *cookie, const char *job);
	void *cookie;
	int count;
};

static bool segment_list_one(void *cookie, int directory, const char *name)
{
	static const char ending[] = ".segment";
	struct segment_listing *listing = cookie;
	size_t length = strlen(name), tail = sizeof ending - 1;
	char job[SEGMENT_FILE_NAME_MAX];

	(void)directory;
	if (length <= tail || length >= sizeof job || strcmp(name + length - tail, ending) != 0)
		return true;
	segment_copy_text(job, length - tail + 1, name);
	if (directory_check_name(job) != 0)
		return true;
	listing->count++;
	return listing->found(listing->cookie, job) == 0;
}

int segment_list_in(int fd, int (*found)(void *cookie, const char *job), void *cookie)
{
	struct segment_listing listing = {.found = found, .cookie = cookie};
	int error = listing_read(fd, segment_list_one, &listing);

	close(fd);
	return error < 0 ? error : listing.count;
}

int segment_list(int (*found)(void *cookie, const char *job), void *cookie)
{
	int fd = directory_open(0, NULL, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	return segment_list_in(fd, found, cookie);
}
