/* SPDX-License-Identifier: MIT */
/*
 * The device set: the CUDA devices this process sees, their identity, settings and books.
 *
 * device    one CUDA device as this process sees it
 * tier      host memory to which devices spill, as a device: "cpu:N"
 * charge    bytes taken from the job's quota on a device, on either tier (device or host)
 *
 * The set is made once, after the driver's first successful cuInit, and never changes; only a
 * device's settings do. Thread-safe.
 */
#ifndef SPILLWAY_DEVICE_H
#define SPILLWAY_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/lock.h"
#include "core/base/publish.h"
#include "core/config/config.h"
#include "core/cuda/driver.h"
#include "core/registry/registry.h"
#include "core/state/segment.h"
#include "core/ledger/verdict.h"

enum { DEVICE_MAX = SEGMENT_DEVICES };

struct device {
	CUdevice handle;
	struct config_device id; /* ordinal, UUID, PCI bus id, bytes of memory */
	char name[64];
	struct registry *registry;

	struct segment *segment;     /* the job's, or a private one */
	bool is_in_books;            /* it is the job's; else any quota is 0 to the process */
	int index;                   /* of the device in the segment */
	struct counters *statistics; /* in the process slot, as the next two */
	struct ledger *ledger;
	_Atomic uint64_t *placed;     /* the mover's */
	int host_node;                /* NUMA node to which it spills */
	_Atomic uint64_t refusals;    /* out-of-memory answers to the program */
	_Atomic uint32_t elastic;     /* enum elastic */
	_Atomic uint32_t numa_error;  /* why the driver refuses HOST_NUMA memory; 0: it does not */
	_Atomic uint32_t reached_by;  /* peers of its memory: a bit per ordinal */
	_Atomic uint64_t elsewhere;   /* device_count_elsewhere() */
	_Atomic uint64_t given_up;    /* exported memory, on the device */
	_Atomic uint64_t imported;    /* bytes of its job's exported memory that it has open */
	_Atomic bool has_new_charges; /* device_take_new_charges() */

	LOCK_OF(SETTINGS) lock;                /* of the thread that changes the settings */
	PUBLISHED(struct config_gpu) settings; /* read as terms (terms.h) */
	struct facts facts;                    /* as the ledger publishes them */
	struct verdict told;                   /* the verdict of the last event */
	_Atomic bool is_beyond;                /* whether that was that there is too much */
};

/* Host memory of one NUMA node, to which devices spill: "cpu:N". */
struct spill_tier {
	int index;            /* N */
	int node;             /* as the driver counts them; 0 where it does not say */
	unsigned int devices; /* that spill there: a bit per ordinal */
};

enum device_type { DEVICE_GPU, DEVICE_CPU, DEVICE_TYPES };

struct device_set {
	char job[64];
	int process;
	struct segment
	    *apart; /* private, of the devices that are not in the job's books; or NULL */
	int count;
	struct device device[DEVICE_MAX];
	int tier_count;
	struct spill_tier tier[DEVICE_MAX];
	const char *made_by[DEVICE_TYPES]; /* the factory's name */
};

/* A GPU or a tier; the other is NULL. */
struct device_ref {
	enum device_type type;
	struct device *gpu;
	struct spill_tier *tier;
};

/*
 * Fills the set, which is all zero, with the process's devices and the tiers to which they spill
 * (host, 70). The factory with the highest priority that works makes them (cuda 200, soft 100).
 * Devices past DEVICE_MAX are left out with a message. Returns 0 or a negative errno; on failure
 * device_set_clear() releases the devices that are there.
 */
int device_set_identify(struct device_set *set);
/*
 * Enters them in the job's books, once, or in private ones, as where segment is NULL. Else as
 * device_set_identify().
 */
int device_set_enter(struct device_set *set, struct segment *segment, const char *job);
void device_set_clear(struct device_set *set);

/*
 * Looks up a device as the configuration names it (config_selects()), by the product's name, or by
 * "[/job:NAME][/process:PID]/TYPE:N". TYPE is gpu (or cuda) or cpu. The slash before it may be left
 * out. For example, "gpu:1" and "/job:bert/process:4711/gpu:1" both name the second GPU. A name of
 * several devices finds none; job and process must be this one's. Returns whether there is one.
 */
bool device_set_lookup(struct device_set *set, const char *name, struct device_ref *found);
struct device *device_set_by_handle(struct device_set *set, CUdevice handle);
/* Returns the device that has memory at this location, or a part of such memory. NULL: none. */
struct device *device_set_by_location(struct device_set *set, const CUmemLocation *location);
/* Hands the devices to the code that knows contexts. */
void device_set_start_contexts(struct device_set *set);

/* Takes over new settings. Returns whether anything changed. */
bool device_apply(struct device *device, const struct config_gpu *settings);
/*
 * Returns the bytes that the job may hold on the device by these settings: the limit and by how
 * much it has risen. They are 0 to a process that is not in the job's books, unless there is no
 * limit.
 */
uint64_t device_limit_by(const struct device *device, const struct config_gpu *settings);
/* Publishes which limit is in force, as far as it has risen, and tells the reader of events. */
void device_note_limit(struct device *device);
/*
 * Publishes for the mover why a move waits, or MOVE_NONE, unless the settings are of another
 * generation than those it was found under, of which that says nothing.
 */
void device_note_blocker(struct device *device, uint64_t generation, enum move_pending why);
/* Publishes whether memory of the process on the device can move. */
void device_note_elastic(struct device *device, enum elastic elastic);
enum elastic device_elastic(const struct device *device);
/*
 * Counts bytes, part of the charges, that are held ready, or that must stay; negative: that are no
 * more.
 */
void device_note_spare(struct device *device, enum segment_tier tier, int64_t bytes);
void device_note_pinned(struct device *device, int64_t bytes);
uint64_t device_spare(const struct device *device, enum segment_tier tier);
/*
 * Returns the job's generation: other processes may have read newer settings. A process that has
 * looked at its files since it took that generation, and found nothing new, has the newest
 * settings, and device_agree() says so.
 */
uint64_t device_job_generation(const struct device *device);
void device_agree(struct device *device, uint64_t generation);
/* Writes the limit and share in force into the ring. */
void device_note_settings(struct device *device);

/*
 * Charges. None waits: a caller that may makes room (memory/alloc/reclaim.h) and tries again. 0,
 * -ENOSPC, or another negative errno as segment_reserve().
 *
 * device_charge        within the limit in force at that moment: it may have changed since it was
 *                      read before
 * device_charge_moved  likewise for the mover: nothing while evicted, and no more than `most` in
 *                      all
 * device_charge_host   within so many bytes on the host
 * device_charge_taken  memory that the driver has taken already, so with any limit
 * device_charge_driver likewise, where the driver took it for itself: contexts, modules and the
 *                      like, which are shown apart
 */
int device_charge(struct device *device, uint64_t bytes);
int device_charge_moved(struct device *device, uint64_t bytes, uint64_t most);
int device_charge_host(struct device *device, uint64_t bytes, uint64_t limit);
int device_charge_taken(struct device *device, uint64_t bytes);
int device_charge_driver(struct device *device, uint64_t bytes);
/*
 * Returns whether this thread's last charge failed because another process, which stands still,
 * holds the job's books.
 */
bool device_is_held_up(void);
void device_uncharge(struct device *device, enum segment_tier tier, uint64_t bytes);
void device_uncharge_driver(struct device *device, uint64_t bytes);
/*
 * Uncharges memory on the device that was exported under a key (core/state/exports.c; 0: under
 * none). The part that other processes may hold stays charged to the job.
 */
void device_uncharge_exported(struct device *device, uint64_t key, uint64_t bytes);
/* Returns false when not even the whole device has so much, and the driver will refuse it. */
static inline bool device_can_hold(const struct device *device, uint64_t bytes)
{
	return !device->id.memory || bytes <= device->id.memory;
}
/*
 * Counts bytes that this process is charged, and that the driver may not count as its own: managed
 * memory, and memory of other processes. change: more, or fewer, of them.
 */
void device_count_elsewhere(struct device *device, int64_t change);
static inline uint64_t device_elsewhere(const struct device *device)
{
	return atomic_load(&device->elsewhere);
}
/*
 * Returns the most bytes that this process is not charged, and that the driver may count as its
 * own. They are exported memory of its job that it has open, or has exported and given up while
 * other processes hold it.
 */
uint64_t device_uncharged(struct device *device);
/* Returns whether this process was charged, or gave back, since this was asked last. */
static inline bool device_take_new_charges(struct device *device)
{
	return atomic_exchange(&device->has_new_charges, false);
}
/* Returns the job-wide bytes charged now. */
uint64_t device_charged(struct device *device, enum segment_tier tier);
/* Returns the bytes charged to this process. */
uint64_t device_used(const struct device *device, enum segment_tier tier);

#endif
