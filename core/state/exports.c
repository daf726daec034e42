/* SPDX-License-Identifier: MIT */
/*
 * Exported memory: memory that other processes can hold when its owner has given it up or died.
 *
 * Exported memory lives until no process has it: neither its owner, nor an importer, nor an open
 * descriptor of it, in a process or under way in a socket. So memory that its owner gives up, or
 * leaves behind when it is killed and has drained, becomes the job's *orphaned* bytes. They are
 * charged and compared with the limit like any others, until two facts say that the job does not
 * hold the memory any more:
 *
 * importers    no process of the job has it open. Each says so in the memory's record, and a dead
 *              one's word goes with its process slot
 * descriptors  none is open anywhere. A descriptor is tagged when it is made: by a read lock of its
 *              open file description (F_OFD_SETLK) on bytes that no file has. The first of these is
 *              the memory's key and their number is the memory's size. Such a lock goes wherever
 *              the description goes, hinders no process, and ends with its last copy, however that
 *              ends. The kernel lists all of them (/proc/locks). An importer of a descriptor finds
 *              the key in its own list of it (/proc/self/fdinfo). So it knows whether the memory is
 *              of its job, which other job's it may be, and how much it is
 *
 * Nothing is measured: the driver's free bytes change with every job on the device, and would
 * forgive bytes that another job has freed. In doubt the job is charged. It is charged for memory
 * with a descriptor that a process outside the job keeps. It is charged for an import that is not
 * known to be of the job: without a tag its maker is no process of Spillway, or may not lock.
 * Memory that two processes of the job import from elsewhere is charged twice. Memory that a
 * process outside the job has imported and holds no descriptor of is not seen: it is charged to
 * that process's job if it has one. Where /proc/locks can never be read, a descriptor without an
 * importer is not seen, either.
 *
 * A record says all of it, so that totals can be made anew from the records after any kill; a
 * record whose owner is 0 is orphaned. Records change under the segment's lock. The kernel's list
 * (kernel_locks.h) is read without it, before the importers are looked at: an importer still has
 * the descriptor when it says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/state/kernel_locks.h"
#include "core/state/layout.h"

/*
 * A key: 01, 30 bits of the job, 21 of the record's generation, 11 of its index. Index 0 is of
 * memory that weighs nothing for the quota: multicast objects, memory of the host, and memory
 * without a record.
 */
enum {
	INDEX_BITS = 11,
	GENERATION_BITS = 21,
	JOB_SHIFT = INDEX_BITS + GENERATION_BITS,
	JOB_BITS = 30
};
#define KEY_MARK        ((uint64_t)1 << (JOB_SHIFT + JOB_BITS))
#define GENERATION_MASK (((uint32_t)1 << GENERATION_BITS) - 1)
#define BYTES_MAX       ((uint64_t)1 << 48)
/* The kernel's list holds the locks of the whole machine, and a long one costs more than its share:
 * 1000 locks are 14 pages and 0.3 ms, 20000 are 285 pages and 50 ms. A release of one piece of
 * memory reads the fewest. A call that would be refused reads more, and so does the helper. With
 * yet more locks the job stays charged. */
enum { PAGES_OF_ONE = 64, PAGES_OF_ALL = 256 };
static_assert(SEGMENT_EXPORTS == 1 << INDEX_BITS, "an index names a record");
static_assert(SEGMENT_EXPORTS % 64 == 0, "a bit per export");

static uint64_t exports_key_of(const struct segment *segment, uint32_t generation, uint32_t index)
{
	uint64_t job = segment->file->header.token & (((uint64_t)1 << JOB_BITS) - 1);

	return KEY_MARK | job << JOB_SHIFT | (uint64_t)generation << INDEX_BITS | index;
}

static uint32_t exports_index_of(uint64_t key)
{
	return (uint32_t)key & (SEGMENT_EXPORTS - 1);
}

static uint32_t exports_generation_of(uint64_t key)
{
	return (uint32_t)(key >> INDEX_BITS) & GENERATION_MASK;
}

static bool is_of_job(const struct segment *segment, uint64_t key)
{
	return key >> JOB_SHIFT == exports_key_of(segment, 0, 0) >> JOB_SHIFT;
}

/* Returns the record of the memory of this key, or NULL. Under the lock, or for a key that the
 * caller keeps alive. */
static struct segment_export *record_of(const struct segment *segment, uint64_t key)
{
	struct segment_export *e = &segment->file->export[exports_index_of(key)];

	return exports_index_of(key) && is_of_job(segment, key) && atomic_load(&e->bytes) &&
	               e->device < SEGMENT_DEVICES && e->generation == exports_generation_of(key)
	           ? e
	           : NULL;
}

static uint32_t slot_number(const struct segment *segment)
{
	return (uint32_t)segment->number;
}

static bool exports_is_free(const struct segment_export *e)
{
	return !atomic_load(&e->bytes) && !atomic_load(&e->owner);
}

/* --- tags --- */

void segment_tag(const struct segment *segment, int descriptor, uint64_t key, uint64_t bytes)
{
	struct flock lock = {.l_type = F_RDLCK,
	                     .l_whence = SEEK_SET,
	                     .l_start = (off_t)(key ? key : exports_key_of(segment, 0, 0)),
	                     .l_len = key && bytes <= BYTES_MAX ? (off_t)bytes : 1};
	int saved = errno;

	if (fcntl(descriptor, F_OFD_SETLK, &lock) != 0)
		log_once(
		    LOG_INFO,
		    "an exported descriptor cannot be marked (%s): a process that imports it is "
		    "charged for it again, as for another job's memory",
		    strerror(errno));
	errno = saved;
}

static void take_tag(void *cookie, uint64_t start, uint64_t end)
{
	struct segment_tag *tag = cookie;

	if (start >> (JOB_SHIFT + JOB_BITS) == 1 && end >= start && end - start < BYTES_MAX)
		*tag = (struct segment_tag){.key = start, .bytes = end - start + 1};
}

struct segment_tag segment_read_tag(int descriptor)
{
	struct segment_tag tag = {0};

	kernel_locks_of(descriptor, take_tag, &tag);
	if (!exports_index_of(tag.key))
		tag.bytes = 0;
	return tag;
}

/* --- judging --- */

/* Orphans without an importer, by their generation; 0: another, or one with an open descriptor. */
struct judged {
	const struct segment *segment;
	uint32_t generation[SEGMENT_EXPORTS];
	uint64_t imported[SEGMENT_EXPORTS / 64]; /* a bit for each that a process has open */
};

static void see_importers(struct judged *judged)
{
	const struct segment_file *file = judged->segment->file;

	memset(judged->imported, 0, sizeof judged->imported);
	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_ALL)) >= 0;)
		for (int i = 0; i < SEGMENT_EXPORTS / 64; i++)
			judged->imported[i] |= atomic_load(&slot_of(file, n)->importing[i]);
}

static bool is_imported(const struct judged *judged, int index)
{
	return judged->imported[index / 64] >> index % 64 & 1;
}

static void exports_is_open(void *cookie, uint64_t start, uint64_t end)
{
	struct judged *judged = cookie;

	(void)end;
	if (is_of_job(judged->segment, start) &&
	    judged->generation[exports_index_of(start)] == exports_generation_of(start))
		judged->generation[exports_index_of(start)] = 0;
}

static bool has_orphans(const struct segment *segment)
{
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		if (atomic_load_explicit(&segment->file->header.orphaned[d], memory_order_relaxed))
			return true;
	return false;
}

static void exports_add(_Atomic uint64_t *total, uint64_t bytes)
{
	atomic_store(total, atomic_load(total) + bytes);
}

static bool exports_let_go(struct segment *segment, struct judged *judged)
{
	bool any = false;

	if (segment_lock(segment->file) != 0)
		return false;
	see_importers(judged);
	segment_change_begin(&segment->file->header);
	for (int i = 1; i < SEGMENT_EXPORTS; i++) {
		struct segment_export *e = &segment->file->export[i];

		if (judged->generation[i] && judged->generation[i] == e->generation &&
		    export_is_orphan(e) && !is_imported(judged, i)) {
			uint64_t bytes = atomic_load(&e->bytes);

			quota_close(segment->file, (int)e->device);
			atomic_store(&e->bytes, 0);
			exports_add(&segment->file->header.orphaned[e->device], -bytes);
			exports_add(&segment->file->header.charged[e->device][SEGMENT_ON_DEVICE],
			            -bytes);
			any = true;
		}
	}
	segment_change_end(&segment->file->header);
	segment_unlock(segment->file);
	return any;
}

/* Notes the record if only a descriptor can hold its memory. */
static bool is_candidate(struct judged *judged, const struct segment_export *e)
{
	int index = (int)(e - judged->segment->file->export);

	if (!export_is_orphan(e) || is_imported(judged, index))
		return false;
	judged->generation[index] = e->generation;
	return true;
}

/* Releases those that no process has open; in doubt they stay. Returns whether there were any. */
static bool exports_judge(struct segment *segment, struct judged *judged, int pages)
{
	enum kernel_locks_read read = kernel_locks_all(pages, exports_is_open, judged);

	return (read == KERNEL_LOCKS_WHOLE || read == KERNEL_LOCKS_UNREADABLE) &&
	       exports_let_go(segment, judged);
}

static void judge_one(struct segment *segment, const struct segment_export *e)
{
	struct judged judged = {.segment = segment};

	see_importers(&judged);
	if (is_candidate(&judged, e))
		exports_judge(segment, &judged, PAGES_OF_ONE);
}

bool segment_judge_exports(struct segment *segment)
{
	struct judged judged = {.segment = segment};
	int candidates = 0;

	if (!has_orphans(segment))
		return false;
	see_importers(&judged);
	for (int i = 1; i < SEGMENT_EXPORTS; i++)
		candidates += is_candidate(&judged, &segment->file->export[i]);
	return candidates && exports_judge(segment, &judged, PAGES_OF_ALL);
}

/* --- for the owner --- */

/* Returns the hash of a name, never 0. */
static uint64_t exports_hash_of(const void *bytes, size_t size)
{
	uint64_t hash = hash_bytes(HASH_NOTHING, bytes, size);

	return hash ? hash : 1;
}

static struct segment_export *free_record(struct segment *segment)
{
	struct segment_export *export = segment->file->export;

	for (uint32_t tried = 1; tried < SEGMENT_EXPORTS; tried++) {
		uint32_t index = 1 + (segment->exports_next++ % (SEGMENT_EXPORTS - 1));

		if (exports_is_free(&export[index]))
			return &export[index];
	}
	return NULL;
}

uint64_t segment_export(struct segment *segment, int device, uint64_t bytes)
{
	struct segment_export *e;
	uint64_t key = 0;

	if (device < 0 || device >= devices_of(&segment->file->header) || !bytes ||
	    bytes > BYTES_MAX || segment_lock(segment->file) != 0)
		return 0;
	e = free_record(segment);
	if (e) {
		e->generation = (e->generation + 1) & GENERATION_MASK;
		e->generation += !e->generation;
		e->device = (uint32_t)device;
		e->name = 0;
		atomic_store(&e->left, 0);
		atomic_store(&e->owner, slot_number(segment) + 1);
		atomic_store(&e->bytes, bytes);
		key = exports_key_of(segment, e->generation, (uint32_t)(e - segment->file->export));
	}
	segment_unlock(segment->file);
	if (!key)
		log_once(LOG_WARNING,
		         "the job has exported %d pieces of memory that are in use, the most that "
		         "are followed: further memory is not counted once the job has freed it, "
		         "though another process has it open",
		         SEGMENT_EXPORTS - 1);
	return key;
}

void segment_export_name(struct segment *segment, uint64_t key, const void *name, size_t size)
{
	struct segment_export *e;

	if (segment_lock(segment->file) != 0)
		return;
	e = record_of(segment, key);
	if (e)
		e->name = exports_hash_of(name, size);
	segment_unlock(segment->file);
}

uint64_t segment_exported_as(struct segment *segment, const void *name, size_t size)
{
	uint64_t hash = exports_hash_of(name, size), key = 0;

	if (segment_lock(segment->file) != 0)
		return 0;
	for (uint32_t i = 1; i < SEGMENT_EXPORTS && !key; i++) {
		const struct segment_export *e = &segment->file->export[i];

		if (atomic_load(&e->bytes) && e->name == hash)
			key = exports_key_of(segment, e->generation, i);
	}
	segment_unlock(segment->file);
	return key;
}

/* Makes the owner's bytes the job's; under the lock. When it is killed within, the next holder of
 * the lock makes the totals anew. */
static void orphan(struct segment *segment, struct segment_export *e)
{
	uint64_t bytes = atomic_load(&e->bytes), excess;

	segment_change_begin(&segment->file->header);
	quota_close(segment->file, (int)e->device);
	excess =
	    ledger_give_back(&own_books(segment, (int)e->device)->ledger, SEGMENT_ON_DEVICE, bytes);
	atomic_store(&e->left, 0);
	atomic_store(&e->owner, 0);
	if (!excess)
		exports_add(&segment->file->header.orphaned[e->device], bytes);
	else /* it gave back more than it had */
		quota_recount(segment->file);
	segment_change_end(&segment->file->header);
}

uint64_t segment_export_left(struct segment *segment, uint64_t key)
{
	struct segment_export *e = record_of(segment, key);
	uint64_t bytes;

	if (!e || atomic_load(&e->owner) != slot_number(segment) + 1)
		return 0;
	bytes = atomic_load(&e->bytes);
	atomic_store(&e->left, 1);
	if (segment_lock(segment->file) == 0) {
		quota_settle(segment);
		orphan(segment, e);
		segment_unlock(segment->file);
		judge_one(segment, e);
	} else {
		atomic_store(&segment->has_left, true);
	}
	return bytes;
}

void exports_settle(struct segment *segment)
{
	if (!atomic_exchange(&segment->has_left, false))
		return;
	for (int i = 1; i < SEGMENT_EXPORTS; i++) {
		struct segment_export *e = &segment->file->export[i];

		if (atomic_load(&e->left) && atomic_load(&e->owner) == slot_number(segment) + 1 &&
		    e->device < (uint32_t)devices_of(&segment->file->header))
			orphan(segment, e);
	}
}

/* --- for importers --- */

uint64_t segment_exported_bytes(const struct segment *segment, uint64_t key)
{
	const struct segment_export *e = record_of(segment, key);

	return e ? atomic_load(&e->bytes) : 0;
}

bool segment_import(struct segment *segment, uint64_t key)
{
	uint32_t index = exports_index_of(key);
	struct segment_export *e;

	if (!is_of_job(segment, key) || segment_lock(segment->file) != 0)
		return false;
	e = record_of(segment, key);
	if (e)
		atomic_fetch_or(&segment->slot->importing[index / 64], (uint64_t)1 << index % 64);
	segment_unlock(segment->file);
	return e || index == 0;
}

void segment_import_left(struct segment *segment, uint64_t key)
{
	struct segment_export *e = record_of(segment, key);
	uint32_t index = exports_index_of(key);

	if (!e)
		return;
	/* A word of its own: right without the lock, which may not be had. */
	atomic_fetch_and(&segment->slot->importing[index / 64], ~((uint64_t)1 << index % 64));
	judge_one(segment, e);
}

uint64_t segment_orphaned(const struct segment *segment, int device)
{
	return device >= 0 && device < SEGMENT_DEVICES
	           ? atomic_load_explicit(&segment->file->header.orphaned[device],
	                                  memory_order_relaxed)
	           : 0;
}
