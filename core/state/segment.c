/*
 * A job's segment: made whole, joined, left, removed.
 *
 * Runs inside the user's process: descriptors are CLOEXEC and closed again, every wait has an end,
 * no file that does not fit is written to. All of it happens under the job lock, so that creating,
 * joining, replacing and removing never meet.
 */
#include "core/state/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "core/state/layout.h"

void segment_copy_text(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);
	memcpy(to, from, length);
	memset(to + length, 0, size - length);
}

int segment_refuse(int error, char *message, size_t size, const char *format, ...)
{
	if (message && size) {
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(message, size, format, arguments);
		va_end(arguments);
	}
	return error;
}

/* DIR/JOB.segment, for messages. */
static const char *full_path(const char *job, char *path, size_t size)
{
	if (directory_segment_path(job, path, size) != 0)
		snprintf(path, size, "segment of job %s", job);
	return path;
}

/* Reads up to size bytes of a one-line file. Number of bytes, 0 when it cannot be read. */
static size_t read_line(const char *path, char *buf, size_t size)
{
	ssize_t length = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, buf, size);
		close(fd);
	}
	return length > 0 ? (size_t)length : 0;
}

static void read_boot_id(char id[SEGMENT_BOOT_ID_MAX])
{
	size_t length = read_line("/proc/sys/kernel/random/boot_id", id, SEGMENT_BOOT_ID_MAX - 1);
	id[length] = '\0';
	id[strcspn(id, "\n")] = '\0';
}

bool segment_is_of_this_boot(const struct segment_header *header)
{
	char now[SEGMENT_BOOT_ID_MAX];
	read_boot_id(now);
	return !now[0] || !header->boot_id[0] || strcmp(now, header->boot_id) == 0;
}

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

int segment_check(const struct segment_header *header, uint64_t file_size, const char *job,
                  char *message, size_t size)
{
	char path[512];
	full_path(job, path, sizeof path);
	if (file_size < offsetof(struct segment_header, boot_id) ||
	    memcmp(header->magic, SEGMENT_MAGIC, sizeof header->magic) != 0)
		return segment_refuse(-EPROTO, message, size, "%s: not a segment", path);
	if (header->version != SEGMENT_VERSION)
		return segment_refuse(
		    -EPROTO, message, size,
		    "%s: segment of version %u, expected version %d; let the job end, then "
		    "remove the file",
		    path, header->version, SEGMENT_VERSION);
	if (header->size != sizeof(struct segment_file) || file_size != header->size)
		return segment_refuse(-EPROTO, message, size,
		                      "%s: segment of %llu bytes, expected %zu: damaged", path,
		                      (unsigned long long)file_size, sizeof(struct segment_file));

	bool valid = is_terminated(header->boot_id, sizeof header->boot_id) &&
	             is_terminated(header->job, sizeof header->job) &&
	             is_terminated(header->labels, sizeof header->labels) &&
	             header->device_count <= SEGMENT_DEVICES && header->retiring <= SEGMENT_SLOTS &&
	             strcmp(header->job, job) == 0;
	for (uint32_t i = 0; valid && i < SEGMENT_DEVICES; i++) {
		const struct segment_device *device = &header->device[i];
		valid = is_terminated(device->uuid, sizeof device->uuid) &&
		        is_terminated(device->pci_bus_id, sizeof device->pci_bus_id) &&
		        is_terminated(device->name, sizeof device->name);
	}
	if (!valid)
		return segment_refuse(-EPROTO, message, size, "%s: segment of job %s is damaged",
		                      path, job);
	return 0;
}

int segment_open(int directory, const char *job, int flags, struct segment_header *header,
                 uint64_t *file_size, char *message, size_t size)
{
	char name[SEGMENT_FILE_NAME_MAX], path[512];
	struct statx found;
	ssize_t length;
	int error;

	full_path(job, path, sizeof path);
	snprintf(name, sizeof name, "%s.segment", job);
	/* NONBLOCK: it might be a pipe */
	int fd = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		error = -errno;
		return segment_refuse(error, message, size, "%s: %s", path, strerror(-error));
	}
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &found) != 0)
		goto failed;
	if (!S_ISREG(found.stx_mode)) {
		close(fd);
		return segment_refuse(-EPROTO, message, size, "%s: not a segment", path);
	}
	memset(header, 0, sizeof *header);
	length = pread(fd, header, sizeof *header, 0);
	if (length < 0)
		goto failed;
	*file_size = found.stx_size;
	return fd;
failed:
	error = -errno;
	close(fd);
	return segment_refuse(error, message, size, "%s: %s", path, strerror(-error));
}

static struct segment_file *map(int fd)
{
	void *address =
	    mmap(NULL, sizeof(struct segment_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return address == MAP_FAILED ? NULL : address;
}

/* The file is all zero. */
static int initialise(struct segment_file *file, const char *job)
{
	struct segment_header *header = &file->header;
	int error = segment_mutex_init(&header->lock);
	for (int i = 0; !error && i < SEGMENT_SLOTS; i++)
		error = segment_mutex_init(&file->slot[i].life);
	memcpy(header->magic, SEGMENT_MAGIC, sizeof header->magic);
	header->version = SEGMENT_VERSION;
	header->size = sizeof *file;
	read_boot_id(header->boot_id);
	segment_copy_text(header->job, sizeof header->job, job);
	return error;
}

/*
 * Puts an empty segment in place of none or a stale one. It gets its name when it is complete; what
 * a killed creator leaves behind is overwritten by the next.
 */
static int create(int directory, const char *job, char *message, size_t size)
{
	char path[512], name[SEGMENT_FILE_NAME_MAX], unfinished[SEGMENT_FILE_NAME_MAX];
	struct segment_file *file = NULL;
	int error;

	snprintf(name, sizeof name, "%s.segment", job);
	snprintf(unfinished, sizeof unfinished, ".%s.unfinished", job);
	int fd = openat(directory, unfinished, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
	                0600);
	if (fd < 0) {
		error = -errno;
		goto failed;
	}
	/* reserve every page now: a full tmpfs would be SIGBUS later */
	error = -posix_fallocate(fd, 0, sizeof *file);
	if (error)
		goto failed;
	if (fchmod(fd, 0600) != 0 || (file = map(fd)) == NULL) {
		error = -errno;
		goto failed;
	}
	error = initialise(file, job);
	munmap(file, sizeof *file);
	if (!error && renameat(directory, unfinished, directory, name) != 0)
		error = -errno;
	if (error)
		goto failed;
	return fd;
failed:
	if (fd >= 0) {
		close(fd);
		unlinkat(directory, unfinished, 0);
	}
	return segment_refuse(error, message, size, "%s: cannot be made: %s",
	                      full_path(job, path, sizeof path), strerror(-error));
}

/* An open segment that fits, found or made. */
static int open_or_create(int directory, const char *job, char *message, size_t size)
{
	struct segment_header header;
	uint64_t file_size;

	int fd = segment_open(directory, job, O_RDWR, &header, &file_size, message, size);
	if (fd == -ENOENT)
		return create(directory, job, message, size);
	if (fd < 0)
		return fd;
	int error = segment_check(&header, file_size, job, message, size);
	if (error) {
		close(fd);
		return error;
	}
	if (!segment_is_of_this_boot(&header)) {
		close(fd);
		return create(directory, job, message, size);
	}
	return fd;
}

/* Program and arguments, or the program's name where /proc is not to be had. */
static void read_command(char *command, size_t size)
{
	char line[64];
	size_t length = read_line("/proc/self/cmdline", line, sizeof line - 1);
	while (length && line[length - 1] == '\0')
		length--;
	line[length] = '\0';
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 127)
			line[i] = ' ';
	segment_copy_text(command, size, length ? line : program_invocation_short_name);
}

/* Nobody lives: what earlier processes counted belongs to an earlier run. Memory that still drains
 * stays charged. */
static void begin_run(struct segment_file *file, const char *labels)
{
	struct segment_header *header = &file->header;
	bool draining = false;

	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		struct segment_slot *slot = &file->slot[i];
		if (atomic_load(&slot->state) == SLOT_FREE)
			continue;
		draining = true;
		memset(slot->device, 0, sizeof slot->device);
	}
	if (!draining)
		atomic_store(&header->device_count, 0);
	memset(header->ended, 0, sizeof header->ended);
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		for (int s = 0; s < SEGMENT_SIDES; s++)
			header->peak[d][s] = atomic_load(&header->charged[d][s]);
	segment_copy_text(header->labels, sizeof header->labels, labels ? labels : "");
	header->created_ns = segment_clock(CLOCK_REALTIME);
}

static int take_slot(struct segment *segment, const char *labels)
{
	struct segment_file *file = segment->file;
	uint64_t now = segment_clock(CLOCK_REALTIME);
	pid_t pid = getpid();
	char command[64];
	int error;

	read_command(command, sizeof command);
	error = segment_lock(file);
	if (error)
		return error;
	int live = slots_probe(file);
	struct segment_slot *slot = slots_take(file);
	if (slot) {
		segment_change_begin(&file->header);
		if (live == 0)
			begin_run(file, labels);
		slot->pid = pid;
		slot->started_ns = now;
		memcpy(slot->command, command, sizeof slot->command);
		atomic_store(&file->header.seen_ns, now);
		atomic_store(&slot->state, SLOT_LIVE);
		segment_change_end(&file->header);
	}
	segment_unlock(file);
	segment->slot = slot;
	return slot ? 0 : -EUSERS;
}

static int join_locked(int directory, const char *job, const char *labels, struct segment **result,
                       char *message, size_t size)
{
	char path[512];
	int fd = open_or_create(directory, job, message, size);
	if (fd < 0)
		return fd;
	struct segment *segment = calloc(1, sizeof *segment);
	int error = -ENOMEM;
	if (segment) {
		segment->file = map(fd);
		error = segment->file ? take_slot(segment, labels) : -errno;
	}
	close(fd);
	if (!error) {
		*result = segment;
		return 0;
	}
	if (segment && segment->file)
		munmap(segment->file, sizeof *segment->file);
	free(segment);
	full_path(job, path, sizeof path);
	if (error == -EUSERS)
		return segment_refuse(error, message, size,
		                      "%s: has %d processes already, expected fewer", path,
		                      SEGMENT_SLOTS);
	return segment_refuse(error, message, size, "%s: %s", path, strerror(-error));
}

int segment_join(const char *job, const char *labels, struct segment **segment, char *message,
                 size_t size)
{
	if (directory_check_name(job) != 0)
		return segment_refuse(-EINVAL, message, size,
		                      "job name \"%s\": expected 1 to 63 of A-Z a-z 0-9 . _ -, not "
		                      "beginning with a dot",
		                      job ? job : "");
	int directory = directory_open(1, message, size);
	if (directory < 0)
		return directory;
	int lock = segment_job_lock(directory, job);
	int error;
	if (lock < 0) {
		error = segment_refuse(lock, message, size, "job %s: cannot be locked: %s", job,
		                       strerror(-lock));
	} else {
		error = join_locked(directory, job, labels, segment, message, size);
		close(lock);
	}
	close(directory);
	return error;
}

void segment_leave(struct segment *segment)
{
	if (!segment)
		return;
	struct segment_file *file = segment->file;
	/* without the lock the slot is left as a dead process's and drains */
	if (segment_lock(file) == 0) {
		slots_retire(file, segment->slot);
		atomic_store(&file->header.seen_ns, segment_clock(CLOCK_REALTIME));
		segment_unlock(file);
	}
	pthread_mutex_unlock(&segment->slot->life.mutex);
	segment_abandon(segment);
}

void segment_abandon(struct segment *segment)
{
	if (!segment)
		return;
	munmap(segment->file, sizeof *segment->file);
	free(segment);
}

void segment_tend(struct segment *segment)
{
	if (segment_lock(segment->file) != 0)
		return;
	slots_probe(segment->file);
	atomic_store(&segment->file->header.seen_ns, segment_clock(CLOCK_REALTIME));
	segment_unlock(segment->file);
}

static bool is_same_device(const struct segment_device *a, const struct segment_device *b)
{
	if (a->uuid[0] || b->uuid[0])
		return strncmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
	return strncmp(a->pci_bus_id, b->pci_bus_id, sizeof a->pci_bus_id) == 0;
}

int segment_device(struct segment *segment, const struct segment_device *device)
{
	struct segment_header *header = &segment->file->header;
	int error = segment_lock(segment->file);
	if (error)
		return error;
	int count = (int)atomic_load(&header->device_count), index = 0;
	while (index < count && !is_same_device(&header->device[index], device))
		index++;
	if (index == SEGMENT_DEVICES) {
		index = -ENOSPC;
	} else if (index == count) {
		struct segment_device *added = &header->device[index];
		segment_change_begin(header);
		segment_copy_text(added->uuid, sizeof added->uuid, device->uuid);
		segment_copy_text(added->pci_bus_id, sizeof added->pci_bus_id, device->pci_bus_id);
		segment_copy_text(added->name, sizeof added->name, device->name);
		added->memory = device->memory;
		atomic_store(&header->device_count, (uint32_t)count + 1);
		segment_change_end(header);
	}
	segment_unlock(segment->file);
	return index;
}

struct statistics *segment_statistics(struct segment *segment, int device)
{
	if (device < 0 || device >= SEGMENT_DEVICES)
		return NULL;
	return &segment->slot->device[device];
}

void segment_follow(struct segment *segment, uint64_t override_hash)
{
	atomic_store(&segment->slot->override_hash, override_hash);
}

void segment_complain(struct segment *segment, const char *message)
{
	if (segment_lock(segment->file) != 0)
		return;
	segment_change_begin(&segment->file->header);
	segment_copy_text(segment->slot->complaint, sizeof segment->slot->complaint, message);
	segment_change_end(&segment->file->header);
	segment_unlock(segment->file);
}

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

static int check_file_is_over(int directory, const char *job)
{
	struct segment_header header;
	uint64_t file_size;

	int fd = segment_open(directory, job, O_RDWR, &header, &file_size, NULL, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	int error = segment_check(&header, file_size, job, NULL, 0);
	if (!error && segment_is_of_this_boot(&header)) {
		struct segment_file *file = map(fd);
		error = file ? check_is_over(file, NULL) : -errno;
		if (file)
			munmap(file, sizeof *file);
	}
	close(fd);
	return error;
}

/* own: the caller's hold on the job, or NULL. */
static int remove_job(const char *job, struct segment *own)
{
	char name[SEGMENT_FILE_NAME_MAX];
	int directory = directory_open(0, NULL, 0);
	if (directory < 0)
		return directory;
	int lock = segment_job_lock(directory, job), error = lock;
	if (lock >= 0)
		error =
		    own ? check_is_over(own->file, own->slot) : check_file_is_over(directory, job);
	if (!error) {
		snprintf(name, sizeof name, "%s.segment", job);
		bool removed = unlinkat(directory, name, 0) == 0;
		snprintf(name, sizeof name, "%s.override.ini", job);
		removed |= unlinkat(directory, name, 0) == 0;
		error = removed ? 0 : -ENOENT;
	}
	if (lock >= 0)
		close(lock);
	close(directory);
	return error;
}

int segment_remove(const char *job)
{
	return directory_check_name(job) == 0 ? remove_job(job, NULL) : -EINVAL;
}

int segment_remove_own(struct segment *segment)
{
	return remove_job(segment->file->header.job, segment);
}
