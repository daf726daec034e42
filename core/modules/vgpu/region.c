/* SPDX-License-Identifier: MIT */
/* HAMi's shared region. Rules: runs inside the user's process, on the helper thread. */
#include "core/modules/vgpu/region.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/file_status.h"

_Static_assert(sizeof(sem_t) == REGION_SEMAPHORE, "as HAMi-core lays it out");

#define FIELD(name, i)      (REGION_AT_##name + (off_t)(i)*REGION_BYTES_##name)
#define SLOT(slot, name, i) (FIELD(process, slot) + SLOT_AT_##name + (off_t)(i)*SLOT_BYTES_##name)

/* A process that ends waits for the lock so long, and looks so often. */
#define LEAVE_NS     1000000000ull
#define LEAVE_NAP_NS 1000000ull

/* An open region. A failure stays. */
struct region {
	int fd, error;
	char *message;
	size_t size;
};

static int refuse(struct region *r, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(struct region *r, int error, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(r->message, r->size, format, list);
	va_end(list);
	r->error = error;
	return error;
}

static void region_get(struct region *r, void *to, size_t size, off_t at)
{
	ssize_t got = r->error ? -1 : pread(r->fd, to, size, at);

	if (got == (ssize_t)size)
		return;
	if (!r->error)
		r->error = got < 0 ? -errno : -EPROTO;
	memset(to, 0, size);
}

static void region_put(struct region *r, const void *from, size_t size, off_t at)
{
	ssize_t put = r->error ? -1 : pwrite(r->fd, from, size, at);

	if (put != (ssize_t)size && !r->error)
		r->error = put < 0 ? -errno : -EIO;
}

static int32_t get_word(struct region *r, off_t at)
{
	int32_t word;

	region_get(r, &word, sizeof(word), at);
	return word;
}

static void put_word(struct region *r, int32_t word, off_t at)
{
	region_put(r, &word, sizeof(word), at);
}

static uint64_t get_long(struct region *r, off_t at)
{
	uint64_t word;

	region_get(r, &word, sizeof(word), at);
	return word;
}

static void put_long(struct region *r, uint64_t word, off_t at)
{
	region_put(r, &word, sizeof(word), at);
}

/* Locks it for processes of the container, or unlocks it, and does not wait. */
static void region_lock(struct region *r, short type)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = REGION_SIZE};

	if (!r->error && fcntl(r->fd, F_OFD_SETLK, &range) != 0)
		r->error = errno == EACCES ? -EAGAIN : -errno;
}

/*
 * Locks the region for a process that leaves. Other processes of the container may leave at the
 * same moment, so the lock is tried until LEAVE_NS are over.
 */
static void lock_soon(struct region *r)
{
	struct deadline until = DEADLINE_IN(LEAVE_NS);

	for (region_lock(r, F_WRLCK); r->error == -EAGAIN; region_lock(r, F_WRLCK)) {
		if (!deadline_nap(&until, LEAVE_NAP_NS))
			return; /* the next that tells something clears our slot */
		r->error = 0;
	}
}

static void open_at(struct region *r, const char *path, int flags)
{
	struct stat found;

	r->fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
	if (r->fd < 0)
		refuse(r, -errno, "%s: %s", path, strerror(errno));
	else if (file_status_of(r->fd, &found) != 0 || !S_ISREG(found.st_mode))
		refuse(r, -EPROTO, "%s: not HAMi's shared region", path);
}

static int finish(struct region *r, const char *path)
{
	if (r->fd >= 0)
		close(r->fd); /* which unlocks it */
	if (r->error && !*r->message)
		snprintf(r->message, r->size, "%s: %s", path, strerror(-r->error));
	return r->error;
}

/* --- the whole of it --- */

static bool is_made(struct region *r)
{
	struct stat found = {.st_size = 0};

	if (!r->error && file_status_of(r->fd, &found) != 0)
		r->error = -errno;
	return !r->error && found.st_size >= REGION_SIZE &&
	       get_word(r, REGION_AT_initialized) == REGION_MAGIC;
}

/*
 * Returns whether a file that is no region may become one: it is empty, was one that was cut short,
 * or is one that HAMi-core is about to make. The path is the environment's, which may name any file
 * of its user's.
 */
static bool may_be_made(struct region *r)
{
	struct stat found = {.st_size = 0};
	int32_t begins;

	if (r->error || file_status_of(r->fd, &found) != 0)
		return false;
	if (found.st_size == 0)
		return true;
	begins = get_word(r, REGION_AT_initialized);
	return !r->error &&
	       (begins == REGION_MAGIC || (begins == 0 && found.st_size == REGION_SIZE + 1));
}

static void check_version(struct region *r, const char *path)
{
	int major = get_word(r, REGION_AT_major_version),
	    minor = get_word(r, REGION_AT_minor_version);

	if (!r->error && (major != REGION_MAJOR || (minor != 1 && minor != 2)))
		refuse(r, -EPROTO, "%s: shared region of version %d.%d, expected 1.1 or 1.2", path,
		       major, minor);
}

static void put_semaphore(struct region *r, off_t at)
{
	sem_t free_one;

	memset(&free_one, 0, sizeof(free_one));
	sem_init(&free_one, 1, 1);
	region_put(r, &free_one, sizeof(free_one), at);
}

/* Makes it; the magic comes last, because the monitor looks for that. */
static void region_make(struct region *r, const struct region_tell *tell)
{
	if (!r->error && ftruncate(r->fd, 0) != 0)
		r->error = -errno;
	if (!r->error && ftruncate(r->fd, REGION_SIZE + 1) != 0)
		r->error = -errno;
	put_word(r, REGION_MAJOR, REGION_AT_major_version);
	put_word(r, tell->minor, REGION_AT_minor_version);
	put_semaphore(r, REGION_AT_lock);
	put_semaphore(r, REGION_AT_later_lock);
	put_word(r, 1, REGION_AT_utilization_switch);
	put_word(r, 2, REGION_AT_recent_kernel);
	put_word(r, tell->priority, REGION_AT_priority);
	put_long(r, (uint64_t)time(NULL), REGION_AT_last_kernel_time);
	put_word(r, REGION_MAGIC, REGION_AT_initialized);
}

/* --- devices --- */

static int get_device_count(struct region *r)
{
	uint64_t count = get_long(r, REGION_AT_device_count);

	return count < REGION_DEVICES ? (int)count : REGION_DEVICES;
}

static void get_uuid(struct region *r, int i, char uuid[REGION_UUID])
{
	region_get(r, uuid, REGION_UUID, FIELD(uuid, i));
	uuid[REGION_UUID - 1] = '\0';
}

/* Finds the device, entered with its limits where it is new. Returns its place; negative: none. */
static int region_place_of(struct region *r, const struct region_device *device)
{
	int count = get_device_count(r);
	char uuid[REGION_UUID];

	for (int i = 0; i < count; i++) {
		get_uuid(r, i, uuid);
		if (strcmp(uuid, device->uuid) == 0)
			return i;
	}
	if (count == REGION_DEVICES || r->error)
		return -1;
	memset(uuid, 0, sizeof(uuid));
	snprintf(uuid, sizeof(uuid), "%s", device->uuid);
	region_put(r, uuid, sizeof(uuid), FIELD(uuid, count));
	put_long(r, device->limit, FIELD(limit, count));
	put_long(r, device->percent ? device->percent : 100, FIELD(sm_limit, count));
	put_long(r, (uint64_t)count + 1, REGION_AT_device_count);
	return count;
}

static void get_monitor_settings(struct region *r, struct region_settings *settings)
{
	uint64_t percent;

	memset(settings, 0, sizeof(*settings));
	settings->count = get_device_count(r);
	for (int i = 0; i < settings->count; i++) {
		get_uuid(r, i, settings->device[i].uuid);
		settings->device[i].limit = get_long(r, FIELD(limit, i));
		percent = get_long(r, FIELD(sm_limit, i));
		settings->device[i].percent = percent < 100 ? percent : 0;
	}
	settings->is_blocked = get_word(r, REGION_AT_recent_kernel) < 0;
	settings->is_switched = get_word(r, REGION_AT_utilization_switch) != 0;
}

/* --- slots --- */

static bool is_dead(int32_t pid)
{
	return pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH);
}

static void region_copy_slot(struct region *r, int from, int to)
{
	char slot[REGION_SLOT];

	region_get(r, slot, sizeof(slot), FIELD(process, from));
	region_put(r, slot, sizeof(slot), FIELD(process, to));
}

static void clear_slot(struct region *r, int slot)
{
	static const char nothing[REGION_SLOT];

	region_put(r, nothing, sizeof(nothing), FIELD(process, slot));
}

static int get_process_count(struct region *r)
{
	int32_t count = get_word(r, REGION_AT_process_count);

	if (count < 0 || count > REGION_PROCESSES)
		r->error = -EPROTO;
	return r->error ? 0 : count;
}

/*
 * Finds the process's slot, or makes one. The last slot takes the place of one whose process is
 * dead. Negative: there is none.
 */
static int slot_of(struct region *r, int32_t pid)
{
	int count = get_process_count(r), before = count, found = -1;

	for (int i = 0; i < count;) {
		int32_t other = get_word(r, SLOT(i, pid, 0));

		if (other == pid) {
			found = i++;
		} else if (is_dead(other)) {
			region_copy_slot(r, --count, i);
			clear_slot(r, count);
		} else {
			i++;
		}
	}
	if (found < 0 && count < REGION_PROCESSES) {
		found = count++;
		clear_slot(r, found);
		put_word(r, pid, SLOT(found, pid, 0));
		put_word(r, 1, SLOT(found, status, 0));
	}
	if (count != before)
		put_word(r, count, REGION_AT_process_count);
	return found;
}

static void put_process(struct region *r, const char *path, const struct region_tell *tell)
{
	struct region_used used[REGION_DEVICES] = {{0}};
	struct region_utilization utilization[REGION_DEVICES] = {{0}};
	int slot;

	for (int i = 0; i < tell->count && i < REGION_DEVICES; i++) {
		int place = region_place_of(r, &tell->device[i]);

		if (place < 0)
			continue;
		used[place].data = used[place].total = tell->device[i].used;
		utilization[place].sm = tell->device[i].busy;
	}
	slot = slot_of(r, tell->pid);
	if (slot < 0) {
		refuse(r, r->error ? r->error : -EUSERS, "%s: has %d processes already", path,
		       REGION_PROCESSES);
		return;
	}
	region_put(r, used, sizeof(used), SLOT(slot, used, 0));
	region_put(r, utilization, sizeof(utilization), SLOT(slot, utilization, 0));
	if (!tell->has_launched)
		return;
	put_long(r, (uint64_t)time(NULL), REGION_AT_last_kernel_time);
	if (get_word(r, REGION_AT_recent_kernel) >= 0)
		put_word(r, 2, REGION_AT_recent_kernel);
}

/* --- one exchange with the region --- */

int region_tell(const char *path, const struct region_tell *tell, struct region_settings *settings,
                char *message, size_t size)
{
	struct region r = {.message = message, .size = size};

	*message = '\0';
	open_at(&r, path, O_RDWR);
	if (r.error == -ENOENT) {
		r.error = 0;
		*message = '\0';
		open_at(&r, path, O_RDWR | O_CREAT);
		if (!r.error)
			(void)fchmod(r.fd,
			             0666); /* other processes of the container write there, too */
	}
	region_lock(&r, F_WRLCK);
	if (!is_made(&r)) {
		if (!r.error && !may_be_made(&r))
			refuse(&r, -EPROTO, "%s: not HAMi's shared region", path);
		region_make(&r, tell);
	}
	check_version(&r, path);
	put_process(&r, path, tell);
	get_monitor_settings(&r, settings);
	return finish(&r, path);
}

int region_read(const char *path, struct region_settings *settings)
{
	char message[256] = "";
	struct region r = {.message = message, .size = sizeof(message)};

	open_at(&r, path, O_RDONLY);
	if (!r.error && !is_made(&r))
		r.error = -ENOENT;
	check_version(&r, path);
	get_monitor_settings(&r, settings);
	return finish(&r, path);
}

void region_leave(const char *path, int pid)
{
	char message[256] = "";
	struct region r = {.message = message, .size = sizeof(message)};
	int count;

	open_at(&r, path, O_RDWR);
	lock_soon(&r);
	check_version(&r, path);
	count = get_process_count(&r);
	for (int i = 0; i < count && !r.error; i++) {
		if (get_word(&r, SLOT(i, pid, 0)) != pid)
			continue;
		region_copy_slot(&r, --count, i);
		clear_slot(&r, count);
		put_word(&r, count, REGION_AT_process_count);
		break;
	}
	finish(&r, path);
}
