/* SPDX-License-Identifier: MIT */
/*
 * The segment file in shared memory, and the declarations of this room. Private.
 *
 * A change of a struct here, of struct counters or struct ledger raises SEGMENT_VERSION and the
 * sizes asserted below. magic, version, size and boot_id keep their places in every version.
 *
 * lock      guards all but the counters, which their owner writes alone. It is taken by trylock
 *           only, so no process waits in the kernel and every wait has an end. A process that finds
 *           its holder dead repairs
 * retire    a dead process slot's counters go into `ended` once, also where the retiring process is
 *           killed. The sum is made beside, `retiring` commits it, and repeating the rest does no
 *           harm
 * job lock  a record lock on ".lock" in the directory, one byte per job. A segment is created,
 *           joined, replaced and removed under it alone. It dies with the process and is not
 *           inherited
 */
#ifndef SPILLWAY_LAYOUT_H
#define SPILLWAY_LAYOUT_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "core/base/shared_file.h"
#include "core/base/lock.h"
#include "core/ledger/ledger.h"
#include "core/state/segment.h"

/*
 * The words by which the processes of one job pace together, in the job's segment: accounts, and
 * slots in common.
 *
 * lane one process of the job, by its slot in the segment
 */
enum { LANES_MAX = 4096, LANES_DEVICES = 16 }; /* SEGMENT_SLOTS, SEGMENT_DEVICES */

struct lane {
	_Atomic uint64_t seen_ns; /* CLOCK_MONOTONIC; when it last said that it works */
	_Atomic uint32_t devices; /* a bit per device of the segment that it paces */
	_Atomic uint32_t flying;  /* likewise: on which work may be in flight */
	_Atomic uint32_t stuck;   /* and is overdue */
	uint32_t unused;
};

struct lanes {
	_Atomic uint64_t paid_until[LANES_DEVICES]; /* the job's account on each device */
	_Atomic uint64_t slot_until; /* the end of the slot that is common to all devices */
	_Atomic uint64_t reached; /* launches of the device that has most since that: see align.h */
	_Atomic uint32_t changed; /* a thread that waits within a slot waits for this word */
	_Atomic uint32_t count;   /* lanes at and above this index were never used */
	struct lane lane[LANES_MAX];
};

#define SEGMENT_MAGIC "SPILLSEG"

enum {
	SEGMENT_TIERS = 2,
	SEGMENT_PAGE = 4096,
	SEGMENT_ROW = 64, /* slots */
	SEGMENT_ROWS = SEGMENT_SLOTS / SEGMENT_ROW
};

/* A mutex in room of one size, wherever it is built. */
union segment_mutex {
	pthread_mutex_t mutex;
	char room[64];
};

/* A process's place in the job. */
struct segment_slot {
	_Alignas(64) union segment_mutex life; /* held by its process's helper thread */
	uint32_t has_life;                     /* the mutex was made */
	int32_t pid;                           /* in its own namespace; for people */
	uint64_t started_ns;
	uint64_t drained_ns;         /* CLOCK_MONOTONIC; when a draining slot is released */
	_Atomic uint64_t exiting_ns; /* CLOCK_REALTIME; when it began to exit, or 0 */
	_Atomic uint64_t override_hash;
	_Atomic uint32_t threads, contexts; /* one more than there are; 0: not known */
	char command[64];
	char complaint[256];
	_Atomic uint64_t importing[SEGMENT_EXPORTS / 64]; /* a bit per export that it has open */
	uint64_t pid_space;           /* the namespace of pid, by its inode; 0: not known */
	_Atomic uint64_t lacks;       /* enum segment_module: those that are not built in */
	_Atomic uint64_t reserved[8]; /* 0 in version 8, as `lacks` in earlier builds */
};

/* The figures of one process on one device. */
struct segment_books {
	_Alignas(64) struct ledger ledger;
	struct counters counters; /* their owner alone writes them */
	_Atomic uint64_t placed;  /* placed.h; 0 from a process that does not know it */
};

/* The job's limit on one device, for its processes and for other jobs. */
struct segment_applied {
	_Atomic uint64_t limit;      /* as last set; 0: no process has met the device */
	_Atomic uint64_t grown;      /* by how much it has risen by itself */
	_Atomic uint64_t judged_ns;  /* CLOCK_MONOTONIC; when its growth was judged last */
	_Atomic uint64_t generation; /* of the settings that its processes were told of last */
	_Atomic uint64_t settings;   /* a hash of those */
};

/* The figures that processes which have ended leave behind. */
struct segment_ended {
	struct counters counters;
	struct facts facts; /* of the one that ended last */
};

struct segment_header {
	char magic[8];
	uint32_t version;
	_Atomic uint32_t is_unnamed; /* 1: the job has no name */
	uint64_t size;
	char boot_id[SEGMENT_BOOT_ID_MAX]; /* after a reboot no mutex in the file means anything */
	char job[64];
	char labels[256];
	char run[64];       /* as given to segment_join(), cut to fit */
	char shared_by[96]; /* as given to segment_join_unnamed(); or "" */
	uint64_t created_ns;
	_Atomic uint64_t seen_ns; /* CLOCK_REALTIME; when a process of the job last said it lives */
	_Atomic uint64_t sequence; /* odd while slots come and go, for readers */
	_Atomic uint32_t retiring; /* slot index + 1 while ended_next replaces ended, else 0 */
	_Atomic uint32_t device_count;
	uint64_t token; /* random; no other segment has it */
	_Atomic uint64_t
	    page_ns; /* CLOCK_MONOTONIC; when its page (page.h) was looked after last, or 0 */
	_Atomic uint64_t status_ns; /* likewise; when its status file (status.h) was written last */
	_Atomic uint64_t polled_ns; /* CLOCK_MONOTONIC; as seen_ns, which a set clock may move */
	_Atomic uint32_t is_removed; /* 1: the file goes or has gone; there are no more slots */
	_Atomic uint32_t bell;       /* counts segment_ring(), which wakes the job's helpers */
	_Alignas(64) union segment_mutex lock;
	/*
	 * the sum over slots in use, and orphaned bytes; or LEDGER_OPEN and the process slot that
	 * has them
	 */
	_Atomic uint64_t charged[SEGMENT_DEVICES][SEGMENT_TIERS];
	_Atomic uint64_t orphaned[SEGMENT_DEVICES]; /* the sum over exports without an owner */
	uint64_t peak[SEGMENT_DEVICES][SEGMENT_TIERS];
	struct segment_device device[SEGMENT_DEVICES];
	struct segment_applied applied[SEGMENT_DEVICES];
	struct segment_ended ended[SEGMENT_DEVICES];
	struct segment_ended ended_next[SEGMENT_DEVICES];
	_Atomic uint64_t
	    page_number;       /* random; in the name of its page, another when that was taken */
	_Atomic uint32_t rows; /* of slots that have pages, for all devices that are counted */
	uint32_t probed;       /* the row that was looked at last for the dead; under the lock */
	/* The state of every slot: a bit in one of them, or free. Both: it drains. */
	_Atomic uint64_t live[SEGMENT_ROWS], draining[SEGMENT_ROWS];
	uint64_t
	    driver_peak[SEGMENT_DEVICES]; /* the most that the driver took for itself, job-wide */
	/* The highest limit of the run; 0: none yet, or the process does not know of this. */
	uint64_t limit_most[SEGMENT_DEVICES];
};

/* Memory that was exported (exports.c). */
struct segment_export {
	_Atomic uint32_t owner; /* the slot that is charged with it, and 1; 0: orphaned */
	_Atomic uint32_t left;  /* its owner has given it up, and could not say so yet */
	uint32_t generation;    /* another for each memory that had the record; 0: none did */
	uint32_t device;
	_Atomic uint64_t bytes; /* 0: the record is free */
	uint64_t name;          /* a hash of the handle that stands for it; 0: descriptors do */
};

/* Slots that get their pages together: those of a device once the job has met it. */
struct segment_row {
	_Alignas(SEGMENT_PAGE) struct segment_slot slot[SEGMENT_ROW];
	struct segment_books books[SEGMENT_DEVICES][SEGMENT_ROW];
};

/* Mapped at its full size; the file ends behind the last row that has pages, and has holes where a
 * row's devices have not been met. */
struct segment_file {
	struct segment_header header;
	struct segment_export export[SEGMENT_EXPORTS];
	struct lanes lanes; /* a lane per slot */
	struct segment_row row[SEGMENT_ROWS];
};

static_assert((int)LANES_MAX == (int)SEGMENT_SLOTS, "a lane per slot");
static_assert((int)LANES_DEVICES == (int)SEGMENT_DEVICES, "an account per device");
static_assert((int)SEGMENT_ROW == 64, "a word of bits per row");

static_assert(sizeof(struct counters) == (35 + 2 + 8) * 8,
              "a counter more or less: raise SEGMENT_VERSION");
static_assert(sizeof(struct ledger) == 256, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_device) == 136, "layout changed: raise SEGMENT_VERSION");
static_assert(offsetof(struct segment_header, version) == 8, "same in every version");
static_assert(offsetof(struct segment_header, size) == 16, "same in every version");
static_assert(offsetof(struct segment_header, lock) == 640,
              "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_header) == 19072, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_slot) == 768, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_books) == 640, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_export) == 32, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct lane) == 24, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct lanes) == 98456, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(((struct segment_row *)0)->slot) % SEGMENT_PAGE == 0 &&
                  sizeof(((struct segment_row *)0)->books[0]) % SEGMENT_PAGE == 0,
              "whole pages, so that nothing is touched that has none");
static_assert(sizeof(pthread_mutex_t) <= sizeof(union segment_mutex), "no room for the mutex");
static_assert(sizeof(_Atomic uint64_t) == 8, "counters are plain words");

enum page_state { PAGE_RESTS, PAGE_WRITING, PAGE_WITHDRAWN, PAGE_GONE };

/* One process's hold on a segment. */
struct segment {
	struct segment_file *file;
	struct segment_slot *slot;
	int number; /* of its slot */
	int asked;  /* the slot that slots_look_for_gone() has looked at last */
	struct segment_books
	    *own;        /* its first books; SEGMENT_ROW of other slots' lie between two */
	char *directory; /* in which the file is */
	char *node;      /* in which its page is */
	_Atomic int page_state;
	bool has_published;                           /* the helper's */
	bool begins_run;                              /* its process was the first of a run */
	_Atomic bool has_removed_rings;               /* of earlier processes */
	bool begins_job;                              /* no process lived when its own came */
	uint64_t began_ns;                            /* CLOCK_MONOTONIC; when it began to join */
	struct segment_limit limit[SEGMENT_DEVICES];  /* under the lock */
	_Atomic uint64_t host_limit[SEGMENT_DEVICES]; /* page_note_host_limit() */
	/* given back while the lock could not be had; settled with the next one that is,
	 * segment_poll() at the latest */
	_Atomic uint64_t owed[SEGMENT_DEVICES][SEGMENT_TIERS];
	_Atomic bool has_left; /* likewise of exported memory */
	uint32_t exports_next; /* where a free record is looked for; under the lock */
};

/* Returns how many devices there are, with any contents of the file. */
static inline int devices_of(const struct segment_header *header)
{
	uint32_t count = atomic_load_explicit(&header->device_count, memory_order_relaxed);

	return count < SEGMENT_DEVICES ? (int)count : SEGMENT_DEVICES;
}

/* Returns how many rows of slots there are, likewise. */
static inline int rows_of(const struct segment_header *header)
{
	uint32_t count = atomic_load_explicit(&header->rows, memory_order_relaxed);

	return count < SEGMENT_ROWS ? (int)count : SEGMENT_ROWS;
}

/* --- slots by their numbers --- */

static inline struct segment_slot *slot_of(const struct segment_file *file, int number)
{
	return (struct segment_slot *)&file->row[number / SEGMENT_ROW].slot[number % SEGMENT_ROW];
}

static inline struct segment_books *books_of(const struct segment_file *file, int number,
                                             int device)
{
	const struct segment_row *row = &file->row[number / SEGMENT_ROW];

	return (struct segment_books *)&row->books[device][number % SEGMENT_ROW];
}

static inline struct segment_books *own_books(const struct segment *segment, int device)
{
	return &segment->own[device * SEGMENT_ROW];
}

static inline bool slot_is(const _Atomic uint64_t *bits, int number)
{
	return atomic_load(&bits[number / SEGMENT_ROW]) >> number % SEGMENT_ROW & 1;
}

enum segment_slot_state slot_state(const struct segment_header *header, int number);
/*
 * Returns the first slot behind this one that is live, drains, or is either; -1: none. They
 * are gone through with `for (int n = -1; (n = slots_next(header, n, SLOTS_ALL)) >= 0;)`.
 */
enum slots { SLOTS_ALL, SLOTS_LIVE, SLOTS_DRAINING };
int slots_next(const struct segment_header *header, int after, enum slots which);

/*
 * Returns whether a process belongs to an earlier run of its job. Its memory drains and is charged,
 * and is no part of the peaks of this run. For example, a job of 64 MiB is killed and started again
 * at once: the peak of the second run does not have the 64 MiB of the first.
 */
static inline bool slot_is_of_earlier_run(const struct segment_file *file, int number)
{
	return slot_is(file->header.draining, number) &&
	       slot_of(file, number)->started_ns < file->header.created_ns;
}

/* How long a reader waits, in all, for changes of counters to end, unless a test says. */
extern uint64_t segment_view_patience_ns;
/* SEGMENT_DRAIN_NS, unless a test shortens it. */
extern uint64_t segment_drain_ns;

/* Removes the job's override (remove.c); with the job lock. Returns whether there was one. */
bool segment_remove_override(int directory, const char *job);

/* file.c */
enum { SEGMENT_FILE_NAME_MAX = 80 }; /* "JOB.segment", ".JOB.unfinished" */
/* Fills path with DIR/JOB.segment, for messages. Returns path. */
const char *segment_path(const char *job, char *path, size_t size);
static const struct shared_format segment_format = {
    .magic = SEGMENT_MAGIC, .version = SEGMENT_VERSION, .size = sizeof(struct segment_file)};

/* Checks that header and file size are those of this job's segment. Returns 0, or -EPROTO and
 * message. */
int segment_check(const struct segment_header *header, uint64_t file_size, const char *job,
                  char *message, size_t size);
/* Opens an existing segment and reads its header. A descriptor or a negative errno and message. */
int segment_open(int directory, const char *job, int flags, struct segment_header *header,
                 uint64_t *file_size, char *message, size_t size);
/* Finds or makes a segment that fits, and maps it; under the job lock. Returns a descriptor, else
 * as segment_open(). */
int segment_open_or_create(int directory, const char *job, bool unnamed, struct segment_file **file,
                           char *message, size_t size);
/* Gives pages to a row, as far as so many devices need it, or to one device alone. */
int segment_reserve_row(int fd, uint32_t row, uint32_t devices);
int segment_reserve_device(int fd, uint32_t row, uint32_t device);
/* Opens the file of a segment that is mapped. Returns a descriptor or a negative errno. */
int segment_reopen(const struct segment *segment);
/* Maps the segment. Returns NULL and sets errno when it cannot be. */
struct segment_file *segment_map(int fd);
/* before.c */
enum other_life {
	OTHER_NONE, /* it is no segment of another version */
	OTHER_OVER, /* it is of another boot, or no process has it */
	OTHER_LIVES,
	OTHER_UNKNOWN /* the kernel does not say */
};
/*
 * Returns whether the job's segment is one of a version that cannot be read, and still in use; with
 * the job lock, and no descriptor of the file that could write. *version: of the file.
 */
enum other_life segment_other_version(int directory, const char *job, uint32_t *version);
/*
 * Returns whether any process has a file open or mapped to write. fd: opened to read alone, of a
 * file of the caller's user.
 */
enum other_life segment_file_life(int fd);
/* directory.c */
/* Returns whether a file that has this id was made since the machine was started. */
bool segment_is_of_this_boot(const char boot_id[SEGMENT_BOOT_ID_MAX]);
/* Reads up to size bytes of a small file. Returns the number of bytes, 0 when it cannot be read. */
size_t segment_read_line(const char *path, char *buf, size_t size);
/* Copies text as strncpy should: terminated, the rest zero. */
void segment_copy_text(char *to, size_t size, const char *from);

/* slot.c */
/* Takes the lock. Returns 0, or -EBUSY when it was not had within a second. */
int segment_lock(struct segment_file *file);
void segment_unlock(struct segment_file *file);
/* Begins a change that readers must see whole; under the lock. segment_change_end() ends it. */
static inline void segment_change_begin(struct segment_header *header)
{
	atomic_fetch_add(&header->sequence, 1);
}

static inline void segment_change_end(struct segment_header *header)
{
	atomic_fetch_add(&header->sequence, 1);
}

/* Finishes the work of a dead holder of the lock. Works on a reader's copy too. */
void segment_repair(struct segment_file *file);
/*
 * Takes the job lock. Returns a descriptor that unlocks when it is closed, or a negative errno. A
 * process has one at a time.
 */
int segment_job_lock(int directory, const char *job);

/* Lists like segment_list(), in this directory, and closes its descriptor. */
int segment_list_in(int directory, int (*found)(void *cookie, const char *job), void *cookie);

static inline uint64_t quota_get(const _Atomic uint64_t *charge)
{
	return atomic_load_explicit(charge, memory_order_relaxed);
}

static inline void quota_set(_Atomic uint64_t *charge, uint64_t bytes)
{
	atomic_store_explicit(charge, bytes, memory_order_relaxed);
}

/* slot.c; all under the lock but the first */
/* Returns the job-wide bytes charged. Takes no lock. */
uint64_t quota_charged(const struct segment_file *file, int device, enum segment_tier tier);
/* Returns the bytes of earlier runs' processes that drain: of their memory, and of the driver's. */
uint64_t quota_of_earlier_runs(const struct segment_file *file, int device, enum segment_tier tier);
uint64_t quota_driver_of_earlier_runs(const struct segment_file *file, int device);
/* Makes the total that of all processes where one charged in the open; under the lock. */
void quota_close(struct segment_file *file, int device);
/* Notes a limit that comes into force; under the lock. */
static inline void quota_note_limit(struct segment_file *file, int device, uint64_t limit)
{
	uint64_t *most = &file->header.limit_most[device];

	if (limit > *most)
		*most = limit;
}
/* Makes the totals the sum over slots in use. */
void quota_recount(struct segment_file *file);
bool export_is_orphan(const struct segment_export *e);

/* quota.c */
/* Gives back bytes that could not be given back before for want of the lock; under it. */
void quota_settle(struct segment *segment);
/* Returns the higher one of a peak and of the process's: the job had no less. */
static inline uint64_t quota_peak(uint64_t peak, const struct ledger *ledger, int tier)
{
	uint64_t own = atomic_load_explicit(&ledger->peak[tier], memory_order_relaxed);

	return own > peak ? own : peak;
}

/* Returns the higher of a peak of the driver's own memory and that of one process. */
static inline uint64_t quota_driver_peak(uint64_t peak, const struct ledger *ledger)
{
	uint64_t own = atomic_load_explicit(&ledger->driver_peak, memory_order_relaxed);

	return own > peak ? own : peak;
}

/* exports.c; under the lock */
/* Settles the rest of exported memory, as quota_settle() does of charges. */
void exports_settle(struct segment *segment);

/* slot.c */
/* is_shared: with other processes. Else it is not robust: the kernel may refuse that. */
int segment_mutex_init(union segment_mutex *mutex, bool is_shared);
/* Returns whether the slot's owner lives. Judges by the bytes alone, for readers: no
 * trylock, no pid. */
bool slot_owner_lives(const struct segment_slot *slot);
/* Returns the calling process's namespace of process ids; 0: not known. */
uint64_t slot_pid_space(void);
/*
 * Returns how long after now (CLOCK_MONOTONIC) the memory of a slot with a dead owner may still be
 * held.
 */
uint64_t slot_drain_left(const struct segment_header *header, const struct segment_slot *slot,
                         uint64_t now);
/* Returns whether a draining slot's time is over. */
static inline bool slot_is_drained(const struct segment_slot *slot, uint64_t now)
{
	/* farther away than it can have been set: another clock, so it was long ago */
	return now >= slot->drained_ns || slot->drained_ns - now > segment_drain_ns;
}
/*
 * Notes that the slot's process lives, once all its other words are written; that it has died and
 * may still hold memory; that the slot is free.
 */
void slots_enter(struct segment_file *file, int number);

/* slot.c; all under the lock */
/*
 * Finds a free slot and takes its mutex for the calling thread; everything else is zero.
 * Returns its number, or -1 when none is free in the rows that there are.
 */
int slots_take(struct segment_file *file);
/*
 *  Marks slots of dead processes as draining and retires drained ones. It looks at one row's number
 *  of live ones, going round with each call. Each process of the job polls it every second, so all
 *  are looked at 64 times a second, however many there are.
 */
void slots_probe(struct segment_file *file);
/* Returns whether any process lives. Those that are met and do not drain from now on; when none
 * does, that was all of them. */
bool slots_any_lives(struct segment_file *file);
/* Marks some of the processes that died unmarked (slot.c); others the next time. Under the lock. */
void slots_look_for_gone(struct segment *segment);
void slots_retire(struct segment_file *file, int number);

/* totals.c */
/* Adds an ended process, or a live one, to the job's figures. */
void totals_add_ended(struct segment_ended *total, const struct segment_books *books);
void totals_add_live(struct counters *total, const struct counters *process);
/*
 * Forgets settings before the first live process is added: its settings replace those of ended
 * ones.
 */
void totals_forget_settings(struct counters *total);
/*
 * Replaces, in a copy of a segment's header, each total that a process charges without the lock by
 * that process's own word, which it reads from the file.
 */
void segment_read_open_totals(int fd, struct segment_header *header);

#endif
