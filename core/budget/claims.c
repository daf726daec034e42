/*
 * Claims: what a job's limit on a device is, and how far it has risen, for its own processes and
 * for other jobs.
 *
 * Runs inside the user's process. How far a limit has risen changes under the segment's lock, under
 * which charges are compared with it; all else takes no lock. Other jobs' files are read by pread:
 * their headers, and the words of processes that charge without the lock.
 *
 * A generation of settings is the job's: it is another one whenever a process finds other settings
 * than those that the job was told of last. A process that differs for good, by its environment,
 * agrees to the newest one each time it has looked at its files and found nothing new.
 */
#include "core/budget/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

static struct segment_claim *claim_of(const struct segment *segment, int device)
{
	if (device < 0 || device >= SEGMENT_DEVICES)
		return NULL;
	return &segment->file->header.claim[device];
}

uint64_t segment_claim(struct segment *segment, int device, const struct claim *told)
{
	struct segment_claim *claim = claim_of(segment, device);
	uint64_t generation;
	bool is_locked;

	if (!claim)
		return told->generation + 1;
	is_locked = segment_lock(segment->file) == 0;
	if (atomic_exchange(&claim->limit, told->limit) != told->limit)
		atomic_store(&claim->grown, 0);
	generation = atomic_load(&claim->generation);
	if (atomic_exchange(&claim->settings, told->settings) != told->settings ||
	    generation <= told->generation)
		atomic_store(&claim->generation, ++generation);
	if (is_locked)
		segment_unlock(segment->file);
	return generation;
}

uint64_t segment_generation(const struct segment *segment, int device)
{
	const struct segment_claim *claim = claim_of(segment, device);

	return claim ? atomic_load_explicit(&claim->generation, memory_order_acquire) : 0;
}

uint64_t segment_grown(const struct segment *segment, int device)
{
	const struct segment_claim *claim = claim_of(segment, device);

	return claim ? atomic_load_explicit(&claim->grown, memory_order_relaxed) : 0;
}

void segment_set_grown(struct segment *segment, int device, uint64_t limit, uint64_t bytes)
{
	struct segment_claim *claim = claim_of(segment, device);

	/* Without the lock it is judged again before long. */
	if (!claim || segment_lock(segment->file) != 0)
		return;
	if (atomic_load(&claim->limit) == limit)
		atomic_store(&claim->grown, bytes);
	segment_unlock(segment->file);
}

bool segment_judges_growth(struct segment *segment, int device, uint64_t interval_ns)
{
	struct segment_claim *claim = claim_of(segment, device);
	uint64_t now = clock_now(), before;

	if (!claim)
		return false;
	before = atomic_load(&claim->judged_ns);
	/* 0: nobody has yet, on a machine that may just have booted. Later than now: another clock
	 * wrote it. */
	if (before && before <= now && now - before < interval_ns)
		return false;
	return atomic_compare_exchange_strong(&claim->judged_ns, &before, now);
}

/* Returns what one job may still take of the device, by its header. */
static uint64_t owed_to(const struct segment_header *header, const char *uuid)
{
	uint64_t owed = 0;

	for (uint32_t d = 0; d < header->device_count; d++) {
		uint64_t limit = header->claim[d].limit;
		uint64_t used = header->charged[d][SEGMENT_ON_DEVICE];

		if (strncmp(header->device[d].uuid, uuid, sizeof header->device[d].uuid) != 0)
			continue;
		/* One without a limit is owed what it had to place on the host. */
		if (limit == UINT64_MAX)
			owed += header->charged[d][SEGMENT_ON_HOST];
		else if (limit > used)
			owed += limit - used;
	}
	return owed;
}

static uint64_t charged_to(const struct segment_header *header, const char *uuid)
{
	uint64_t charged = 0;

	for (uint32_t d = 0; d < header->device_count; d++)
		if (strncmp(header->device[d].uuid, uuid, sizeof header->device[d].uuid) == 0)
			charged += header->charged[d][SEGMENT_ON_DEVICE];
	return charged;
}

/* Reads a job's header. Does not use the common functions, whose messages name the directory: this
 * thread must not read the environment. */
static bool read_header(int directory, const char *job, struct segment_header *header)
{
	char name[SEGMENT_FILE_NAME_MAX];
	bool is_ours;
	ssize_t length;
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	length = pread(fd, header, sizeof *header, 0);
	is_ours = length == sizeof *header &&
	          memcmp(header->magic, SEGMENT_MAGIC, sizeof header->magic) == 0 &&
	          header->version == SEGMENT_VERSION &&
	          header->size == sizeof(struct segment_file) &&
	          header->device_count <= SEGMENT_DEVICES;
	if (is_ours)
		segment_read_open_totals(fd, header);
	close(fd);
	return is_ours;
}

static bool runs_now(const struct segment_header *header)
{
	uint64_t now = clock_now(), tended = header->tended_ns;

	return (tended > now ? tended - now : now - tended) < SEGMENT_SILENT_NS &&
	       segment_is_of_this_boot(header);
}

static uint64_t owed_now_to(const struct segment_header *header, const char *uuid)
{
	return runs_now(header) ? owed_to(header, uuid) : 0;
}

struct asking {
	const struct segment *own;
	const char *uuid;
	int directory;
	uint64_t (*of)(const struct segment_header *header, const char *uuid);
	uint64_t bytes; /* of all who were asked */
};

static int ask(void *cookie, const char *job)
{
	struct asking *asking = cookie;
	struct segment_header header;

	if (strcmp(job, asking->own->file->header.job) != 0 &&
	    read_header(asking->directory, job, &header))
		asking->bytes += asking->of(&header, asking->uuid);
	return 0;
}

/* Returns what is true of all other jobs together, by their headers. */
static uint64_t ask_all(const struct segment *segment, int device,
                        uint64_t (*of)(const struct segment_header *header, const char *uuid))
{
	struct asking asking = {.own = segment, .of = of};
	int listed;

	if (device < 0 || device >= SEGMENT_DEVICES)
		return 0;
	asking.uuid = segment->file->header.device[device].uuid;
	if (!asking.uuid[0])
		return 0;
	asking.directory = directory_open_path(segment->directory, 0, NULL, 0);
	if (asking.directory < 0)
		return 0;
	listed = fcntl(asking.directory, F_DUPFD_CLOEXEC, 0);
	if (listed >= 0)
		segment_list_in(listed, ask, &asking);
	close(asking.directory);
	return asking.bytes;
}

uint64_t segment_owed(const struct segment *segment, int device)
{
	return ask_all(segment, device, owed_now_to);
}

uint64_t segment_charged_to_others(const struct segment *segment, int device)
{
	int saved = errno, cancel;
	uint64_t bytes;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	bytes = ask_all(segment, device, charged_to);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return bytes;
}
