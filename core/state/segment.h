/* SPDX-License-Identifier: MIT */
/*
 * The segment: the state that the processes of one job share, in one file of the state directory.
 *
 * segment  header, device table, quota per device, process slots
 * slot     one process. Its owner holds the slot's robust mutex for life, so other processes learn
 *          of its death by trylock, with any pids, namespaces and descriptors
 * quota    job-wide bytes per device, device and host tier; a running total under a short lock
 * drain    a dead slot stays charged for SEGMENT_DRAIN_NS after its death was noticed, because a
 *          driver gives a killed process's memory back late. It is SEGMENT_EXIT_DRAIN_NS where the
 *          process exited normally
 * run      the processes whose counters are summed up: those that overlap, and those of one run
 *          by name
 *
 * The file is data of other processes. Magic, version, size and layout are checked before anything
 * is believed. A file that does not fit is refused with a message and never written to. Created
 * with posix_fallocate (a full tmpfs must not become SIGBUS), mapped shared, descriptor closed.
 */
#ifndef SPILLWAY_SEGMENT_H
#define SPILLWAY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/ledger/ledger.h"
#include "core/ledger/statistics.h"

enum {
	SEGMENT_VERSION = 8, /* raise it whenever any struct of the file changes size or meaning */
	SEGMENT_SLOTS = 4096,
	SEGMENT_BOOT_ID_MAX = 40,
	SEGMENT_DEVICES = 16,
	SEGMENT_EXPORTS = 2048, /* pieces of exported memory that are followed, and one */
};
#define SEGMENT_DRAIN_NS      2000000000ull
#define SEGMENT_EXIT_DRAIN_NS 300000000ull
#define SEGMENT_POLL_NS       1000000000ull /* how often segment_poll() is called, about */
/*
 * A process whose last segment_poll() is longer ago does not run: on a busy machine they come late.
 */
#define SEGMENT_SILENT_NS (3 * SEGMENT_POLL_NS)
/* A dead process is charged for this long after its last segment_poll(), at most: it was silent,
 * then its death was noticed, and it drained. */
#define SEGMENT_GONE_NS (SEGMENT_SILENT_NS + SEGMENT_DRAIN_NS)

struct segment;
struct lanes;

struct segment_device {
	char uuid[48];
	char pci_bus_id[16];
	char name[64];
	uint64_t memory; /* bytes the hardware has */
};

/* --- for the process that belongs to the job (shim) --- */

/*
 * Opens or creates the job's segment and takes a slot. When no live process is in it, and
 * run (may be NULL) is empty or not that of the last process, statistics are cleared: a new run of
 * the job begins. The owner of the slot's mutex must live as long as the process uses it.
 * Returns 0 or a negative errno, message filled: -EPROTO not a segment of this version, -EUSERS no
 * slot left, -EBUSY a lock was not had.
 */
int segment_join(const char *job, const char *labels, const char *run, struct segment **segment,
                 char *message, size_t size);
/*
 * Makes a segment of so many devices that lies in no file and that no other process sees. A process
 * that could not join its job charges and counts there. It exports nothing and has no peers.
 * segment_leave() takes it away. NULL: there is no memory.
 */
struct segment *segment_make_private(int devices);
/*
 * Sets the function that runs the taking of a slot, in the thread that is to own it (else that is
 * the joining thread), and answers its answer.
 */
void segment_owner(int (*run)(int (*take)(void *of), void *of));
/*
 * Reads the process's facts for the slot, which takes a while. Where it was not called before a
 * slot is taken that is done then. By the owner.
 */
void segment_prepare(void);
/* Removes rings of earlier processes that may go, once. Where there is an owner it does that, when
 * it has time; else joining does. */
void segment_remove_rings(struct segment *segment);
/* Gives the slot back and unmaps; called by the owner. Remaining charges are freed. */
void segment_leave(struct segment *segment);
/*
 * Looks for dead processes, releases drained ones and notes that the job lives. The helper thread
 * calls it every SEGMENT_POLL_NS. Of a death that no process noticed it is assumed that it came no
 * later than SEGMENT_SILENT_NS after the job's last call.
 */
void segment_poll(struct segment *segment);
/* Says that the process exits normally and has nothing more to free: once its death is noticed, its
 * slot drains only for SEGMENT_EXIT_DRAIN_NS. Any thread may call it; the slot
 * stays valid. */
void segment_exiting(struct segment *segment);
/*
 * Joins like segment_join(), for a job without a name. Its files last only as long as its processes
 * live. They are marked so before they have their names, so a process that is killed here leaves
 * nothing for ever. shared_by: the sharers of its limits, for readers; "" for a process alone.
 * Removes the override of processes that have all ended.
 */
int segment_join_unnamed(const char *job, const char *labels, const char *run,
                         const char *shared_by, struct segment **segment, char *message,
                         size_t size);
/*
 * Removes the files of earlier jobs without a name that were killed or gone by exec or _exit. Takes
 * the lock of other jobs: not while another thread of the process joins one.
 */
void segment_remove_left(const struct segment *segment);
/*
 * Removes the override and the segment of a job without a name, as a process of it exits, unless
 * another process is in the job. Where a limit is shared the segment stays while anything is
 * charged, of the calling process too. The memory is held until the process has died and longer,
 * and the next process must find it charged. A later process removes that one. Any thread may call
 * it; the slot stays valid. Returns as segment_remove().
 */
int segment_remove_own(struct segment *segment);
/* Unmaps in a forked child without touching the parent's slot, and frees nothing: the
 * allocator's locks may be held by threads of the parent. */
void segment_abandon(const struct segment *segment);

/* Reads the id that the kernel drew when the machine was started; "" when it cannot be read. */
void segment_read_boot_id(char id[SEGMENT_BOOT_ID_MAX]);
/*
 * Returns whether no process of the job lived when this one came. *began_ns: when it began to join,
 * of CLOCK_MONOTONIC.
 */
bool segment_begins_job(const struct segment *segment, uint64_t *began_ns);

/*
 * Tells the words that no other process has, as readers find them in segment_view and
 * segment_process.
 */
void segment_identity(const struct segment *segment, uint64_t *token, uint64_t *started_ns);

/* Returns the index of this device, found by UUID, else by PCI bus id; added if new. Returns
 * -ENOSPC or -EBUSY otherwise. */
int segment_device(struct segment *segment, const struct segment_device *device);

/*
 * What the calling process writes of one device: its counters, its ledger, and which of its memory
 * is where (placed.h).
 */
struct segment_own {
	struct counters *counters;
	struct ledger *ledger;
	_Atomic uint64_t *placed;
};
/* Returns where that is, until segment_leave(). NULL for no valid index. */
struct segment_own segment_own(struct segment *segment, int device);

/*
 * Returns the words by which the job's processes pace together (layout.h); valid until leave.
 * *lane: the calling process's own, zero when it joins. With the first of the processes that live
 * at a time all of it is zero.
 */
struct lanes *segment_lanes(struct segment *segment, int *lane);

enum segment_tier { SEGMENT_ON_DEVICE, SEGMENT_ON_HOST };

/* Charges bytes job-wide if the total stays within limit (CONFIG_UNLIMITED: always). No system or
 * driver call happens inside the lock. Before refusing, dead slots are looked for and
 * drained ones released. Returns 0, -ENOSPC (would exceed the limit), -EBUSY (lock not had within 1
 * s), -EINVAL (no such device). */
int segment_reserve(struct segment *segment, int device, enum segment_tier tier, uint64_t bytes,
                    uint64_t limit);
/*
 * The limit of the calling process's charges on a device: how far it may rise,
 * and whether movable memory is to be on the host.
 */
struct segment_limit {
	uint64_t bytes, most; /* most <= bytes: it does not rise */
	bool evict;
};
/* Returns the bytes that a limit allows which has risen by so much. */
static inline uint64_t segment_limit_with(const struct segment_limit *limit, uint64_t grown)
{
	if (limit->most <= limit->bytes)
		return limit->bytes;
	return grown < limit->most - limit->bytes ? limit->bytes + grown : limit->most;
}
/*
 * Puts another limit in force; before the first there is none to charge within. It changes under
 * the lock under which segment_charge() compares with it: a charge after this returns is within it,
 * and an earlier charge is seen by segment_charged().
 */
void segment_set_limit(struct segment *segment, int device, const struct segment_limit *limit);
/*
 *  Charges like segment_reserve(), on the device, within the limit in force then, and `most` bytes
 *  in all. is_moved: it is for memory that the mover brings. An evicted job has no room for that.
 */
int segment_charge(struct segment *segment, int device, uint64_t bytes, uint64_t most,
                   bool is_moved);
/* Gives back bytes of the calling process; more than it holds is a bug: clamped and logged once. */
void segment_unreserve(struct segment *segment, int device, enum segment_tier tier, uint64_t bytes);
/* Counts bytes of the calling process, charged already, that the driver took for itself; negative:
 * that it gave back. */
void segment_note_driver(struct segment *segment, int device, int64_t change);
/* Returns the job-wide bytes charged now, dead slots not yet drained included. */
uint64_t segment_charged(struct segment *segment, int device, enum segment_tier tier);
/*
 * Returns the bytes charged to dead slots alone, which are worth waiting for. Looks for such slots,
 * and releases drained ones.
 */
uint64_t segment_draining(struct segment *segment, int device, enum segment_tier tier);

/*
 * --- exported memory (exports.c): charged while a process of the job can hold it ---
 *
 * A key stands for one piece of memory while it is exported; 0 is none.
 */

/*
 * Enters device memory of the calling process, charged already, that other processes may come to
 * hold: from now until segment_export_left() it is its owner's. Returns its key; 0: it cannot be
 * followed, and is uncharged as any other.
 */
uint64_t segment_export(struct segment *segment, int device, uint64_t bytes);
/* Notes the handle by which importers know it, where that is no descriptor. */
void segment_export_name(struct segment *segment, uint64_t key, const void *name, size_t size);
uint64_t segment_exported_as(struct segment *segment, const void *name, size_t size);
/*
 * Notes that the owner has given it up: it is charged to it no more, but to the job, as orphaned,
 * unless no other process can hold it. Returns how many bytes that are; 0: the key is not of memory
 * that the process owns.
 */
uint64_t segment_export_left(struct segment *segment, uint64_t key);
/* Says that the calling process has memory of the job open. Returns false where it is not of the
 * job, or not known any more. */
bool segment_import(struct segment *segment, uint64_t key);
void segment_import_left(struct segment *segment, uint64_t key);
/* Returns the bytes of the memory that is known under a key of the job. */
uint64_t segment_exported_bytes(const struct segment *segment, uint64_t key);
/*
 * Releases orphaned memory that no process of the job holds any more. Returns whether there was
 * any. Makes system calls, for a tenth of a second at most. Called where a request would be
 * refused, and by segment_poll().
 */
bool segment_judge_exports(struct segment *segment);
uint64_t segment_orphaned(const struct segment *segment, int device);

struct segment_tag {
	uint64_t key;   /* 0: there is no tag */
	uint64_t bytes; /* 0: nothing that counts */
};
/* Writes the key and the bytes on an exported descriptor; key 0: that it is of this job and weighs
 * nothing. */
void segment_tag(const struct segment *segment, int descriptor, uint64_t key, uint64_t bytes);
struct segment_tag segment_read_tag(int descriptor);

/* The modules (core/job/module.h) that the tool asks a process for, a bit each. */
enum segment_module { SEGMENT_MODULE_events = 1, SEGMENT_MODULE_resources = 2 };
/*
 * Tells the tool which override this process follows (config_override_hash), for set, pause and
 * resume; which of those modules are not built in; and its last configuration error or warning, for
 * stat ("": none).
 */
void segment_tell(struct segment *segment, uint64_t override_hash, unsigned int lacks,
                  const char *complaint);
/* Returns the word that segment_ring() rings. */
_Atomic uint32_t *segment_bell(struct segment *segment);
/* Notes how many threads and CUDA contexts this process has, for stat; negative: not known. */
void segment_count(struct segment *segment, int threads, int contexts);
/*
 * Writes a survey of a device for the tool, JOB.survey-DEVICE, in the place of an earlier one; it
 * goes with the job. Returns 0 or a negative errno.
 */
int segment_put_survey(const struct segment *segment, int device, const void *text, size_t size);

/* --- for readers (tools); never needs a live process, never writes --- */

enum segment_slot_state { SLOT_FREE, SLOT_LIVE, SLOT_DRAINING };

struct segment_process {
	enum segment_slot_state state;
	pid_t pid;
	char command[64];
	uint64_t started_ns; /* CLOCK_REALTIME */
	uint64_t override_hash;
	unsigned int lacks;    /* enum segment_module: not built in */
	int threads, contexts; /* of a live one, as it said lately; -1: not known */
	char complaint[256];
	uint64_t charged[SEGMENT_DEVICES][2]; /* by enum segment_tier */
	struct statistics device[SEGMENT_DEVICES];
};

struct segment_view {
	uint32_t version; /* of the segment: SEGMENT_VERSION, or an earlier one */
	char job[64];
	char labels[256];
	char run[64];        /* as given to segment_join(), cut to fit */
	bool is_unnamed;     /* the job has no name */
	char shared_by[96];  /* the sharers of the limits of a job without a name; or "" */
	uint64_t token;      /* no other segment has it */
	uid_t owner;         /* the owner of the segment's file */
	uint64_t created_ns; /* CLOCK_REALTIME; of this run */
	uint64_t ended_ns;   /* last leave or death noticed; 0 while any process lives */
	int device_count;
	struct segment_device device[SEGMENT_DEVICES];
	struct statistics job_total[SEGMENT_DEVICES]; /* live, drained and ended processes */
	uint64_t charged[SEGMENT_DEVICES][2];         /* by enum segment_tier */
	uint64_t limit_most[SEGMENT_DEVICES]; /* the highest limit of the run; 0: not known */
	uint64_t
	    orphaned[SEGMENT_DEVICES]; /* of it on the device: exported, and its owner is gone */
	int process_count;             /* live and draining */
	struct segment_process *process;
};

/*
 * Reads a consistent copy, into a view that is zero, or was read before. Returns 0 or a negative
 * errno with message: -ENOENT no such job, -EPROTO not a segment or another version (message names
 * it and the expected one).
 */
int segment_read(const char *job, struct segment_view *view, char *message, size_t size);
/* Frees a view that was allocated; NULL: none. */
void segment_view_free(struct segment_view *view);
/* Wakes the helpers of the job's processes, so that they look at files at once. Where that cannot
 * be done they look by themselves within LISTENER_POLL_MS. */
void segment_ring(const char *job);
/* Calls found() with each job name in the state directory that has a segment, until it returns
 * non-zero. Returns the number of calls or -errno. */
int segment_list(int (*found)(void *cookie, const char *job), void *cookie);
/* Removes the segment and override of a job without live processes. Returns 0, -EBUSY (a process
 * lives, or died so lately that its memory still drains) or a negative errno. */
int segment_remove(const char *job);

#endif
