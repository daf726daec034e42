/* SPDX-License-Identifier: MIT */
/* Reading segments of the version before this one. Nothing is mapped and nothing is written. */
#include "core/state/before.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/state/layout.h"

/* The segment of version 7 as it lies in its file. Private to its reader and its
 * test. */

enum {
	BEFORE_ROW = 64, /* process slots */
	BEFORE_ROWS = 64,
	BEFORE_SLOTS = BEFORE_ROWS * BEFORE_ROW,
	BEFORE_DEVICES = 16,
	BEFORE_EXPORTS = 2048,
	BEFORE_PAGE = 4096
};

/*
 * The facts of the settings, published (version, two copies), and charges, peaks, spares, pinned.
 */
struct before_ledger {
	uint64_t word[24];
};

/* The counters, as they were then. */
#define BEFORE_COUNTERS(X) \
	X(pinned_used)     \
	X(allocations)     \
	X(spills)          \
	X(spilled_bytes)   \
	X(refusals)        \
	X(reported_limit)  \
	X(spill_reason)    \
	X(launches)        \
	X(graph_launches)  \
	X(busy_ns)         \
	X(idle_ns)         \
	X(idle_slots)      \
	X(share_held)      \
	X(share_estimated) \
	X(paused)          \
	X(steps)           \
	X(step_ns)         \
	X(demotions)       \
	X(promotions)      \
	X(demoted_bytes)   \
	X(promoted_bytes)  \
	X(queued_moves)    \
	X(move_ns)         \
	X(move_longest_ns) X(provider) X(numa_error) X(host_error) X(managed_error) X(pinned_error)

struct before_counters {
	uint64_t ended;
	struct {
		uint64_t launches, graph_launches;
	} place[4];
#define X(name) uint64_t name;
	BEFORE_COUNTERS(X)
#undef X
	uint64_t begun;
};

struct before_books {
	_Alignas(64) struct before_ledger ledger;
	struct before_counters counters;
	uint64_t placed;
};

struct before_ended {
	struct before_counters counters;
	uint64_t facts[8];
};

struct before_device {
	char uuid[48], pci_bus_id[16], name[64];
	uint64_t memory;
};

struct before_applied {
	uint64_t limit, grown, judged_ns, generation, settings;
};

struct before_header {
	char magic[8];
	uint32_t version, is_unnamed;
	uint64_t size;
	char boot_id[40], job[64], labels[256], run[64], shared_by[96];
	uint64_t created_ns, seen_ns, sequence;
	uint32_t retiring, device_count;
	uint64_t token, page_ns, status_ns, polled_ns;
	uint32_t is_removed;
	_Alignas(64) char lock[64];
	/* a total of 1 << 63 and a process slot: the charges stand in that process slot alone */
	uint64_t charged[BEFORE_DEVICES][2], orphaned[BEFORE_DEVICES], peak[BEFORE_DEVICES][2];
	struct before_device device[BEFORE_DEVICES];
	struct before_applied applied[BEFORE_DEVICES];
	struct before_ended ended[BEFORE_DEVICES], ended_next[BEFORE_DEVICES];
	uint64_t page_number;
	uint32_t rows, probed;
	uint64_t live[BEFORE_ROWS], draining[BEFORE_ROWS];
};

struct before_slot {
	_Alignas(64) uint32_t life; /* the futex of its process's mutex */
	char mutex[60];
	uint32_t has_life;
	int32_t pid;
	uint64_t started_ns, drained_ns, exiting_ns, override_hash;
	uint32_t threads, contexts;
	char command[64], complaint[256];
	uint64_t importing[BEFORE_EXPORTS / 64];
};

struct before_export {
	uint32_t owner, left, generation, device;
	uint64_t bytes, name;
};

struct before_row {
	_Alignas(BEFORE_PAGE) struct before_slot slot[BEFORE_ROW];
	struct before_books books[BEFORE_DEVICES][BEFORE_ROW];
};

/* The file ends behind the last row's process slots, or behind the books of its last device. */
struct before_file {
	struct before_header header;
	struct before_export export[BEFORE_EXPORTS];
	char lanes[98456];
	struct before_row row[BEFORE_ROWS];
};

static_assert(offsetof(struct before_header, lock) == 640, "frozen");
static_assert(sizeof(struct before_header) == 17280, "frozen");
static_assert(sizeof(struct before_counters) == 312, "frozen");
static_assert(sizeof(struct before_slot) == 704, "frozen");
static_assert(sizeof(struct before_books) == 512, "frozen");
static_assert(sizeof(struct before_row) == 64 * 704 + 16 * 64 * 512, "frozen");
static_assert(offsetof(struct before_file, row) == 184320, "frozen");

#define STILL_NS 50000000ull
#define NAP_NS   1000000ull

/* --- as one of ours --- */

/* Words of then are words of now. */
#define SAME(to, from)                                                                             \
	do {                                                                                       \
		static_assert(sizeof(to) == sizeof(from), "say here how one of then is read now"); \
		memcpy(&(to), &(from), sizeof(to));                                                \
	} while (0)

#define SAME_TEXT(to, from)               \
	do {                              \
		SAME(to, from);           \
		(to)[sizeof(to) - 1] = 0; \
	} while (0)

/* A counter of now that was none then is 0. */
static void copy_counters(const struct before_counters *from, struct counters *to)
{
	memset(to, 0, sizeof *to);
#define X(name) statistics_set(&to->name, from->name);
	BEFORE_COUNTERS(X)
#undef X
	SAME(to->place, from->place);
}

static_assert(offsetof(struct ledger, driver_used) == sizeof(struct before_ledger),
              "a ledger begins with the words of then");

static void copy_books(const struct before_books *from, struct segment_books *to)
{
	memset(to, 0, sizeof *to);
	memcpy(&to->ledger, &from->ledger, sizeof from->ledger);
	copy_counters(&from->counters, &to->counters);
	SAME(to->placed, from->placed);
}

static void copy_header(const struct before_header *from, struct segment_header *to)
{
	memset(to, 0, sizeof *to);
	SAME(to->version, from->version);
	SAME(to->is_unnamed, from->is_unnamed);
	SAME_TEXT(to->boot_id, from->boot_id);
	SAME_TEXT(to->job, from->job);
	SAME_TEXT(to->labels, from->labels);
	SAME_TEXT(to->shared_by, from->shared_by);
	SAME(to->created_ns, from->created_ns);
	SAME(to->seen_ns, from->seen_ns);
	SAME(to->polled_ns, from->polled_ns);
	SAME(to->token, from->token);
	SAME(to->device_count, from->device_count);
	SAME(to->peak, from->peak);
	for (int d = 0; d < BEFORE_DEVICES; d++) {
		SAME_TEXT(to->device[d].uuid, from->device[d].uuid);
		SAME_TEXT(to->device[d].pci_bus_id, from->device[d].pci_bus_id);
		SAME_TEXT(to->device[d].name, from->device[d].name);
		SAME(to->device[d].memory, from->device[d].memory);
		SAME(to->applied[d], from->applied[d]);
		copy_counters(&from->ended[d].counters, &to->ended[d].counters);
		SAME(to->ended[d].facts, from->ended[d].facts);
	}
	SAME(to->rows, from->rows);
	SAME(to->live, from->live);
	SAME(to->draining, from->draining);
}

static void before_copy_slot(const struct before_slot *from, struct segment_slot *to)
{
	memset(to, 0, sizeof *to);
	memcpy(&to->life, &from->life, sizeof from->life);
	SAME(to->pid, from->pid);
	SAME(to->started_ns, from->started_ns);
	SAME(to->drained_ns, from->drained_ns);
	SAME(to->exiting_ns, from->exiting_ns);
	SAME(to->override_hash, from->override_hash);
	SAME(to->threads, from->threads);
	SAME(to->contexts, from->contexts);
	SAME_TEXT(to->command, from->command);
	SAME_TEXT(to->complaint, from->complaint);
}

static void copy_export(const struct before_export *from, struct segment_export *to)
{
	memset(to, 0, sizeof *to);
	SAME(to->owner, from->owner);
	SAME(to->device, from->device);
	SAME(to->bytes, from->bytes);
}

/* --- reading --- */

static bool read_part(int fd, void *to, size_t size, size_t at)
{
	return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* Returns room for a header, aligned as in the file; NULL: there is no memory. */
static struct before_header *before_header_alloc(void)
{
	return aligned_alloc(_Alignof(struct before_header), sizeof(struct before_header));
}

static bool is_of_before(const struct before_header *header, const char *job)
{
	static const struct shared_format before = {.magic = SEGMENT_MAGIC,
	                                            .version = SEGMENT_VERSION_BEFORE,
	                                            .size = sizeof(struct before_file)};
	bool is = shared_file_fits(&before, header, header->size) == SHARED_FITS &&
	          strncmp(header->job, job, sizeof header->job) == 0 &&
	          header->device_count <= BEFORE_DEVICES && header->rows <= BEFORE_ROWS;

	for (uint32_t row = header->rows; is && row < BEFORE_ROWS; row++)
		is = !header->live[row] && !header->draining[row];
	return is;
}

/* Returns the least size that the file can have. */
static size_t before_end_of(const struct before_header *header)
{
	uint32_t devices = header->device_count ? header->device_count : 1;

	return header->rows ? offsetof(struct before_file, row[header->rows - 1].books[devices])
	                    : sizeof *header;
}

static bool before_read_header(int fd, const char *job, struct before_header *header)
{
	struct stat found;

	return file_status_of(fd, &found) == 0 && S_ISREG(found.st_mode) &&
	       read_part(fd, header, sizeof *header, 0) && is_of_before(header, job) &&
	       (size_t)found.st_size >= before_end_of(header);
}

static size_t slot_at(int number)
{
	return offsetof(struct before_file, row[number / BEFORE_ROW].slot[number % BEFORE_ROW]);
}

static size_t books_at(int number, int device)
{
	return offsetof(struct before_file, row[number / BEFORE_ROW].books[device]) +
	       (size_t)(number % BEFORE_ROW) * sizeof(struct before_books);
}

static bool before_read_slot(int fd, int number, struct segment_file *copy)
{
	struct before_slot slot;
	struct before_books books;

	if (!read_part(fd, &slot, sizeof slot, slot_at(number)))
		return false;
	before_copy_slot(&slot, slot_of(copy, number));
	for (int d = 0; d < devices_of(&copy->header); d++) {
		if (!read_part(fd, &books, sizeof books, books_at(number, d)))
			return false;
		copy_books(&books, books_of(copy, number, d));
	}
	return true;
}

static bool read_exports(int fd, struct segment_file *copy)
{
	struct before_export export;

	for (size_t i = 0; i < BEFORE_EXPORTS; i++) {
		if (!read_part(fd, &export, sizeof export, offsetof(struct before_file, export[i])))
			return false;
		copy_export(&export, &copy->export[i]);
	}
	return true;
}

static bool before_read_all(int fd, const char *job, struct before_header *header,
                            struct segment_file *copy)
{
	bool is_read = before_read_header(fd, job, header);

	if (is_read) {
		copy_header(header, &copy->header);
		is_read = read_exports(fd, copy);
	}
	for (int n = -1; is_read && (n = slots_next(&copy->header, n, SLOTS_ALL)) >= 0;)
		is_read = before_read_slot(fd, n, copy);
	return is_read;
}

/* Reads a copy during which no process came or went; or, after a bounded time, the last one. */
static bool before_read_still(int fd, const char *job, struct before_header *header,
                              struct segment_file *copy)
{
	struct deadline until = DEADLINE_IN(STILL_NS);
	uint64_t after;

	do {
		if (!before_read_all(fd, job, header, copy) ||
		    !read_part(fd, &after, sizeof after, offsetof(struct before_header, sequence)))
			return false;
	} while ((header->sequence % 2 || header->sequence != after) &&
	         deadline_nap(&until, NAP_NS));
	return true;
}

int before_read(int fd, const char *job, struct segment_file *copy)
{
	struct before_header *header = before_header_alloc();
	bool is_read = header && before_read_still(fd, job, header, copy);

	free(header);
	return is_read ? 0 : -EPROTO;
}

/* --- whether it is over --- */

static bool is_in_use(const struct before_header *header, const struct before_slot *slot,
                      bool is_draining)
{
	uint64_t now = clock_now();

	if (is_draining)
		return now < slot->drained_ns && slot->drained_ns - now <= SEGMENT_DRAIN_NS;
	return ((slot->life & FUTEX_TID_MASK) != 0 && (slot->life & FUTEX_OWNER_DIED) == 0) ||
	       now < header->polled_ns + SEGMENT_GONE_NS;
}

/* Returns whether a process lives, or memory of a dead one may still be held. */
static bool any_is_in_use(int fd, const struct before_header *header)
{
	struct before_slot slot;

	for (int row = 0; row < BEFORE_ROWS; row++)
		for (uint64_t bits = header->live[row] | header->draining[row]; bits;
		     bits &= bits - 1) {
			int number = row * BEFORE_ROW + __builtin_ctzll(bits);

			if (read_part(fd, &slot, sizeof slot, slot_at(number)) &&
			    is_in_use(header, &slot,
			              header->draining[row] >> number % BEFORE_ROW & 1))
				return true;
		}
	return false;
}

static bool read_is_over(int fd, const char *job, bool *is_over)
{
	struct before_header *header = before_header_alloc();
	bool is_before = header && before_read_header(fd, job, header);

	if (is_before)
		*is_over = !segment_is_of_this_boot(header->boot_id) || !any_is_in_use(fd, header);
	free(header);
	return is_before;
}

bool segment_is_of_before(int directory, const char *job, bool *is_over)
{
	char name[SEGMENT_FILE_NAME_MAX];
	bool is_before;
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	is_before = read_is_over(fd, job, is_over);
	close(fd);
	return is_before;
}

/*
 * Files of a version or build that this one cannot read: whether a process still has one.
 *
 * Of a segment magic, version, size and the boot's id keep their places in every version, and each
 * process of a job maps the file to write to it. The kernel knows whether any process has a file
 * open or mapped to write, in any namespace: it grants a read lease only where none does. A lease
 * is asked for on file systems that are known to count so; elsewhere nothing is known.
 */

#define XFS_MAGIC 0x58465342 /* which no header of the kernel's has */

/* The beginning of every version. */
struct other_header {
	char magic[8];
	uint32_t version, is_unnamed;
	uint64_t size;
	char boot_id[SEGMENT_BOOT_ID_MAX];
};

static_assert(offsetof(struct other_header, size) == offsetof(struct segment_header, size) &&
                  offsetof(struct other_header, boot_id) ==
                      offsetof(struct segment_header, boot_id),
              "same in every version");

/* Returns whether a text is an id as the kernel draws it. */
static bool other_has_boot_id(const char id[SEGMENT_BOOT_ID_MAX])
{
	enum { LENGTH = 36 };

	return memchr(id, '\0', SEGMENT_BOOT_ID_MAX) == id + LENGTH &&
	       strspn(id, "0123456789abcdef-") == LENGTH && id[8] == '-' && id[23] == '-';
}

static bool other_is_of_another_boot(const struct other_header *header)
{
	char now[SEGMENT_BOOT_ID_MAX];

	segment_read_boot_id(now);
	return now[0] && other_has_boot_id(header->boot_id) && strcmp(now, header->boot_id) != 0;
}

/* Returns whether the file system counts processes that have a file mapped to write. */
static bool other_counts_writers(int fd)
{
	struct statfs found;

	if (fstatfs(fd, &found) != 0)
		return false;
	switch ((unsigned long)found.f_type) {
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
	case EXT4_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case XFS_MAGIC:
		return true;
	default:
		return false;
	}
}

/*
 * Asks for a lease and gives it back. A process that opened the file to write meanwhile would have
 * a signal sent, and the job lock keeps that from happening. The signal is one that a process
 * ignores, and goes to this thread alone.
 */
enum other_life segment_file_life(int fd)
{
	const struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};

	if (!other_counts_writers(fd) || fcntl(fd, F_SETSIG, SIGURG) != 0 ||
	    fcntl(fd, F_SETOWN_EX, &owner) != 0)
		return OTHER_UNKNOWN;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
		return errno == EAGAIN ? OTHER_LIVES : OTHER_UNKNOWN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return OTHER_OVER;
}

static enum other_life other_judge(int fd, uint32_t *version)
{
	struct other_header header;
	enum shared_fit fit;
	struct stat found;

	if (file_status_of(fd, &found) != 0 || !S_ISREG(found.st_mode) ||
	    pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
		return OTHER_NONE;
	fit = shared_file_fits(&segment_format, &header, header.size);
	if (fit == SHARED_FITS || fit == SHARED_OTHER_KIND)
		return OTHER_NONE;
	*version = header.version;
	return other_is_of_another_boot(&header) ? OTHER_OVER : segment_file_life(fd);
}

enum other_life segment_other_version(int directory, const char *job, uint32_t *version)
{
	char name[SEGMENT_FILE_NAME_MAX];
	enum other_life life = OTHER_NONE;
	int fd;

	snprintf(name, sizeof name, "%s.segment", job);
	fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		life = other_judge(fd, version);
		close(fd);
	}
	return life;
}
