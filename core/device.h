/*
 * The device set: the CUDA devices this process sees, their identity, settings and books.
 *
 * device    one CUDA device as this process sees it
 * charge    bytes taken from the job's quota on a device, on either side (device or host)
 *
 * The set is made once, after the driver's first successful cuInit, and never changes; only a
 * device's settings do. Thread-safe.
 */
#ifndef SPILLWAY_DEVICE_H
#define SPILLWAY_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/driver.h"
#include "core/registry/registry.h"
#include "core/state/segment.h"

enum { DEVICE_MAX = SEGMENT_DEVICES };

struct device {
	CUdevice handle;
	struct config_device id; /* ordinal, UUID, PCI bus id, bytes of memory */
	char name[64];
	struct registry *registry;

	struct segment *segment; /* NULL: no segment could be had, quota is this process's alone */
	int index;               /* of the device in the segment */
	struct statistics *statistics;    /* never NULL */
	struct statistics own_statistics; /* where there is no segment */
	_Atomic uint64_t own_charge[2];   /* likewise, by enum segment_side */
	_Atomic uint64_t own_grown;       /* likewise */
	_Atomic uint64_t own_judged_ns;   /* likewise; CLOCK_MONOTONIC */
	_Atomic uint32_t reached_by;      /* peers of its memory: a bit per ordinal */

	pthread_mutex_t lock; /* guards settings */
	struct config_gpu settings;
};

struct device_set {
	int count;
	struct device device[DEVICE_MAX];
};

/*
 * Fills the set with the process's devices; those past DEVICE_MAX are left out and said. segment
 * may be NULL. 0 or a negative errno; nothing is left behind on failure.
 */
int device_set_fill(struct device_set *set, struct segment *segment, const char *job);
void device_set_clear(struct device_set *set);

/* By ordinal ("0"), UUID or its beginning, PCI bus id, or "/job:NAME/process:PID/gpu:0". NULL:
 * none. */
struct device *device_set_find(struct device_set *set, const char *name);
struct device *device_set_by_handle(struct device_set *set, CUdevice handle);

/* Takes over new settings. Returns whether anything changed. */
bool device_apply(struct device *device, const struct config_gpu *settings);
struct config_gpu device_settings(struct device *device);
/* Bytes the job may hold on the device now: memory_limit and by how much it has risen. */
uint64_t device_limit(struct device *device);
/* The same for who has the settings already. */
uint64_t device_limit_by(const struct device *device, const struct config_gpu *settings);
/* For growth: lets the limit of the whole job rise by so much; at most to memory_limit_max. */
void device_grow(struct device *device, uint64_t bytes);
/* Whether this process is the one of the job that judges growth now: one in interval_ns is. */
bool device_judges_growth(struct device *device, uint64_t interval_ns);
/* Tells the statistics which limit is in force. */
void device_note_limit(struct device *device);

/* As segment_reserve() and segment_unreserve(), and keeps the statistics of used and peak bytes. */
int device_charge(struct device *device, enum segment_side side, uint64_t bytes, uint64_t limit);
/* Charges what the driver has taken already, so whatever the limit is. 0 or a negative errno. */
int device_charge_taken(struct device *device, uint64_t bytes);
void device_uncharge(struct device *device, enum segment_side side, uint64_t bytes);
/* False: so much has not even the whole device, and the driver will refuse it. */
bool device_can_hold(const struct device *device, uint64_t bytes);
/* Job-wide bytes charged now. */
uint64_t device_charged(struct device *device, enum segment_side side);

#endif
