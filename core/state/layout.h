/*
 * The segment file as it lies in shared memory, and what the files of this room share. Private.
 *
 * Whoever changes a struct here, struct counters or struct ledger raises SEGMENT_VERSION and the
 * sizes asserted below. magic, version and size keep their places in every version.
 *
 * lock     guards all but the counters, which their owner writes alone. Taken by trylock only, so
 *          that nobody waits in the kernel and every wait has an end; whoever finds its holder dead
 *          repairs
 * retire   a dead seat's counters go into `ended` once, whenever the one who does it is killed: the
 *          sum is made beside, `retiring` commits it, and repeating what follows does no harm
 * job lock a record lock on ".lock" in the directory, one byte per job: a segment is created,
 * joined, replaced and removed under it alone; dies with the process, is not inherited
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

#include "core/base/lock.h"
#include "core/state/lanes.h"
#include "core/state/ledger.h"
#include "core/state/segment.h"

#define SEGMENT_MAGIC "SPILLSEG"

enum { SEGMENT_SIDES = 2, SEGMENT_BOOT_ID_MAX = 40 };

/* A mutex in room of one size, wherever it is built. */
union segment_mutex {
	pthread_mutex_t mutex;
	char room[64];
};

struct segment_seat {
	_Alignas(64) union segment_mutex life; /* held by its process's helper thread */
	_Atomic uint32_t state;                /* enum segment_seat_state */
	int32_t pid;                           /* in its own namespace; for people */
	uint64_t started_ns;
	uint64_t drained_ns;         /* CLOCK_MONOTONIC; when a draining seat is released */
	_Atomic uint64_t exiting_ns; /* CLOCK_REALTIME; when it began to exit, or 0 */
	_Atomic uint64_t override_hash;
	_Atomic uint32_t threads, contexts; /* one more than there are; 0: not known */
	char command[64];
	char complaint[256];
	_Alignas(64) struct ledger ledger[SEGMENT_DEVICES];
	struct counters counters[SEGMENT_DEVICES];
};

/* The job's limit on one device, for its processes and for other jobs. */
struct segment_claim {
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
	_Atomic uint32_t is_unnamed; /* 1: nobody named the job */
	uint64_t size;
	char boot_id[SEGMENT_BOOT_ID_MAX]; /* after a reboot no mutex in the file means anything */
	char job[64];
	char labels[256];
	char run[64];       /* as given to segment_join(), cut to fit */
	char shared_by[96]; /* as given to segment_join_unnamed(); or "" */
	uint64_t created_ns;
	_Atomic uint64_t seen_ns; /* CLOCK_REALTIME; when a process of the job last said it lives */
	_Atomic uint64_t sequence; /* odd while seats come and go, for those who only look */
	_Atomic uint32_t retiring; /* seat index + 1 while ended_next replaces ended, else 0 */
	_Atomic uint32_t device_count;
	uint64_t token; /* random; no other segment has it */
	_Atomic uint64_t
	    page_ns; /* CLOCK_MONOTONIC; when its page (page.h) was looked after last, or 0 */
	_Atomic uint64_t status_ns; /* likewise; when its status file (status.h) was written last */
	_Atomic uint64_t tended_ns; /* CLOCK_MONOTONIC; as seen_ns, which a set clock may move */
	_Alignas(64) union segment_mutex lock;
	/* the sum over seats in use, and what is orphaned; or LEDGER_OPEN and whose seat says it */
	_Atomic uint64_t charged[SEGMENT_DEVICES][SEGMENT_SIDES];
	_Atomic uint64_t orphaned[SEGMENT_DEVICES]; /* the sum over exports without an owner */
	uint64_t peak[SEGMENT_DEVICES][SEGMENT_SIDES];
	struct segment_device device[SEGMENT_DEVICES];
	struct segment_claim claim[SEGMENT_DEVICES];
	struct segment_ended ended[SEGMENT_DEVICES];
	struct segment_ended ended_next[SEGMENT_DEVICES];
	_Atomic uint64_t
	    page_number; /* random; in the name of its page, another when that was taken */
};

/* Memory that was exported (exports.c). */
struct segment_export {
	_Atomic uint32_t owner; /* the seat that is charged with it, and 1; 0: orphaned */
	_Atomic uint32_t left;  /* its owner has given it up, and could not say so yet */
	uint32_t turn;          /* another for each memory that had the record; 0: none did */
	uint32_t device;
	_Atomic uint64_t bytes; /* 0: the record is free */
	uint64_t name;          /* a hash of the handle that stands for it; 0: descriptors do */
	_Atomic uint64_t importers[SEGMENT_SEATS / 64]; /* a bit per seat that has it open */
};

struct segment_file {
	struct segment_header header;
	struct segment_seat seat[SEGMENT_SEATS];
	struct lanes lanes; /* a lane per seat */
	struct segment_export export[SEGMENT_EXPORTS];
};

static_assert((int)LANES_MAX == (int)SEGMENT_SEATS, "a lane per seat");
static_assert((int)LANES_DEVICES == (int)SEGMENT_DEVICES, "an account per device");

static_assert(sizeof(struct counters) == (29 + 2 + 8) * 8,
              "a counter more or less: raise SEGMENT_VERSION");
static_assert(sizeof(struct ledger) == 192, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_device) == 136, "layout changed: raise SEGMENT_VERSION");
static_assert(offsetof(struct segment_header, version) == 8, "same in every version");
static_assert(offsetof(struct segment_header, size) == 16, "same in every version");
static_assert(offsetof(struct segment_header, lock) == 640,
              "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_header) == 16256, "layout changed: raise SEGMENT_VERSION");
static_assert(offsetof(struct segment_seat, ledger) == 448,
              "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_seat) == 8512, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct segment_export) == 64, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct lane) == 24, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(struct lanes) == 6296, "layout changed: raise SEGMENT_VERSION");
static_assert(sizeof(pthread_mutex_t) <= sizeof(union segment_mutex), "no room for the mutex");
static_assert(sizeof(_Atomic uint64_t) == 8, "counters are plain words");

enum page_state { PAGE_RESTS, PAGE_WRITING, PAGE_WITHDRAWN, PAGE_GONE };

/* One process's hold on a segment. */
struct segment {
	struct segment_file *file;
	struct segment_seat *seat;
	char *directory; /* in which the file is */
	char *node;      /* in which its page is */
	_Atomic int page_state;
	bool has_published;                          /* the helper's */
	bool begins_run;                             /* its process was the first of a run */
	bool begins_job;                             /* no process lived when its own came */
	struct segment_limit limit[SEGMENT_DEVICES]; /* under the lock */
	/* given back while the lock could not be had; settled with the next one that is,
	 * segment_tend() at the latest */
	_Atomic uint64_t owed[SEGMENT_DEVICES][SEGMENT_SIDES];
	_Atomic bool has_left; /* likewise of exported memory */
	uint32_t exports_next; /* where a free record is looked for; under the lock */
};

/* How often who looks naps, for tens of microseconds, until changes of counters have ended, for all
 * of a segment, unless a test does more often. Not so long by the clock, which goes on while the
 * machine stands still and no writer does (view.c). */
extern uint64_t segment_view_naps;
/* SEGMENT_DRAIN_NS, unless a test shortens it. */
extern uint64_t segment_drain_ns;

/* Removes the job's override (remove.c); with the job lock. Returns whether there was one. */
bool segment_remove_override(int directory, const char *job);
/* Removes what unnamed jobs, and whoever was killed while it made a segment, left behind
 * (remove.c). */
void segment_remove_left(struct segment *segment);

/* file.c */
enum { SEGMENT_FILE_NAME_MAX = 80 }; /* "JOB.segment", ".JOB.unfinished" */
/* Fills path with DIR/JOB.segment, for messages. Returns path. */
const char *segment_path(const char *job, char *path, size_t size);
/* Checks that header and file size are those of this job's segment. Returns 0, or -EPROTO and
 * message. */
int segment_check(const struct segment_header *header, uint64_t file_size, const char *job,
                  char *message, size_t size);
/* Opens an existing segment and reads its header. A descriptor or a negative errno and message. */
int segment_open(int directory, const char *job, int flags, struct segment_header *header,
                 uint64_t *file_size, char *message, size_t size);
/* Finds or makes a segment that fits; under the job lock. Returns a descriptor, else as
 * segment_open(). */
int segment_open_or_create(int directory, const char *job, bool unnamed, char *message,
                           size_t size);
/* Gives a new file all its pages. Returns 0 or a negative errno. */
int segment_reserve_pages(int fd, size_t size);
/* Gives a new file all its pages, and its user alone the rights. Returns 0 or a negative errno. */
int segment_reserve_file(int fd, size_t size);
/* Gives an existing file back the pages that somebody cut out. Returns 0 or a negative errno. */
int segment_fill_holes(int fd, size_t size);
/* Maps the segment. Returns NULL and sets errno when it cannot be. */
struct segment_file *segment_map(int fd);
/* boot.c */
/* Reads the id that the kernel drew when the machine was started; "" when it cannot be read. */
void segment_read_boot_id(char id[SEGMENT_BOOT_ID_MAX]);
/* Returns whether the segment was written since the machine was started. */
bool segment_is_of_this_boot(const struct segment_header *header);
/* Reads up to size bytes of a small file. Returns the number of bytes, 0 when it cannot be read. */
size_t segment_read_line(const char *path, char *buf, size_t size);
/* Copies text as strncpy should: terminated, the rest zero. */
void segment_copy_text(char *to, size_t size, const char *from);

/* lock.c */
int segment_mutex_init(union segment_mutex *mutex);
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

/* Finishes what a dead holder of the lock began. Works on a reader's copy too. */
void segment_repair(struct segment_file *file);
/* Takes the job lock. Returns a descriptor whose closing unlocks, or a negative errno. A process
 * has one at a time. */
int segment_job_lock(int directory, const char *job);

/* Lists like segment_list(), in this directory, whose descriptor it closes. */
int segment_list_in(int directory, int (*found)(void *cookie, const char *job), void *cookie);

/* recount.c; all under the lock but the first */
/* Returns the job-wide bytes charged. Takes no lock. */
uint64_t quota_charged(const struct segment_file *file, int device, enum segment_side side);
/* Makes the total that of all processes where one charged in the open; under the lock. */
void quota_close(struct segment_file *file, int device);
/* Makes the totals the sum over seats in use. */
void quota_recount(struct segment_file *file);
/* Orphans what the process of a seat that is retired owned, and strikes out what it had imported.
 * May be repeated. */
void exports_forget_seat(struct segment_file *file, uint32_t seat);
/* Lets go what is orphaned: no process lives, so nobody of the job has it. */
void exports_forget_orphans(struct segment_file *file);
bool export_is_orphan(const struct segment_export *e);

/* quota.c */
/* Gives back what could not be before for want of the lock; under it. */
void quota_settle(struct segment *segment);
/* Returns the higher one of a peak and of the process's: the job had no less. */
static inline uint64_t quota_peak(uint64_t peak, const struct segment_seat *seat, int device,
                                  int side)
{
	uint64_t own = atomic_load_explicit(&seat->ledger[device].peak[side], memory_order_relaxed);

	return own > peak ? own : peak;
}

/* exports.c; under the lock */
/* Settles what was left of exported memory, as quota_settle() does of charges. */
void exports_settle(struct segment *segment);

/* seats.c; all under the lock */
/* Takes a free seat, its mutex held by the calling thread, everything else zero. Returns NULL when
 * none is free. */
struct segment_seat *seats_take(struct segment_file *file);
/* Marks seats of dead processes as draining and retires drained ones. Returns the number of live
 * ones. */
int seats_probe(struct segment_file *file);
void seats_retire(struct segment_file *file, struct segment_seat *seat);
void seats_finish_retiring(struct segment_file *file);
/* Returns whether the seat's owner lives. Judges by the bytes alone, for readers: no trylock, no
 * pid. */
bool seat_owner_lives(const struct segment_seat *seat);
/* Returns how long after now (CLOCK_MONOTONIC) the memory of a seat whose owner is dead may still
 * be held. */
uint64_t seat_drain_left(const struct segment_header *header, const struct segment_seat *seat,
                         uint64_t now);
/* Says that a process of the job runs; any thread may. */
void seats_tended(struct segment_header *header);
/* Returns whether a draining seat's time is over. */
bool seat_is_drained(const struct segment_seat *seat, uint64_t now);

/* totals.c */
/* Adds an ended process, or a live one, to what is known of the job. */
void totals_add_ended(struct segment_ended *total, const struct segment_seat *seat, int device);
void totals_add_live(struct counters *total, const struct counters *process);
/* Forgets settings before the first live process is added: what is known of it replaces what ended
 * ones had. */
void totals_forget_settings(struct counters *total);

#endif
