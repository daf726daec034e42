/* SPDX-License-Identifier: MIT */
/*
 * HAMi's shared region: the file of a container in which its monitor finds each process's memory,
 * and writes its own settings.
 *
 * Every process in the container, and the monitor, may write to the file and cut it short. So it is
 * never mapped: it is read and written by system calls, once a second, and its values are checked.
 * Processes of the container keep a lock meanwhile, which conflicts with HAMi-core's own.
 */
#ifndef SPILLWAY_REGION_H
#define SPILLWAY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The shared region of HAMi-core, version 1.2: names, places and sizes, by which HAMi's and
 * Volcano's monitors find their figures (pkg/monitor/nvidia/v1/spec.go). Its public header declares
 * them (src/multiprocess/multiprocess_memory_limit.h of HAMi-core 8f3a89c). The monitors know 1.1,
 * too, which is the same except for a lock at the end. A file has one byte more than the region.
 */
enum {
	REGION_MAGIC = 19920718,
	REGION_MAJOR = 1,
	REGION_DEVICES = 16,
	REGION_PROCESSES = 1024,
	REGION_UUID = 96,
	REGION_SEMAPHORE = 32, /* glibc's sem_t on machines of 64 bits */
};

/* X(field, place, bytes of one, how many) */
#define REGION_FIELDS(X)                                \
	X(initialized, 0, 4, 1)                         \
	X(major_version, 4, 4, 1)                       \
	X(minor_version, 8, 4, 1)                       \
	X(sm_initialized, 12, 4, 1)                     \
	X(owner_pid, 16, 8, 1)                          \
	X(lock, 24, REGION_SEMAPHORE, 1)                \
	X(device_count, 56, 8, 1)                       \
	X(uuid, 64, REGION_UUID, REGION_DEVICES)        \
	X(limit, 1600, 8, REGION_DEVICES)               \
	X(sm_limit, 1728, 8, REGION_DEVICES)            \
	X(process, 1856, REGION_SLOT, REGION_PROCESSES) \
	X(process_count, 2008896, 4, 1)                 \
	X(utilization_switch, 2008900, 4, 1)            \
	X(recent_kernel, 2008904, 4, 1)                 \
	X(priority, 2008908, 4, 1)                      \
	X(last_kernel_time, 2008912, 8, 1)              \
	X(later_lock, 2008920, REGION_SEMAPHORE, 1)

/* The same of one process, from the beginning of its slot. */
#define REGION_SLOT_FIELDS(X)                    \
	X(pid, 0, 4, 1)                          \
	X(host_pid, 4, 4, 1)                     \
	X(used, 8, 64, REGION_DEVICES)           \
	X(monitor_used, 1032, 8, REGION_DEVICES) \
	X(utilization, 1160, 48, REGION_DEVICES) \
	X(status, 1928, 4, 1)                    \
	X(sequence, 1936, 8, 1)                  \
	X(unused, 1944, 8, 2)

enum { REGION_SLOT = 1960, REGION_SIZE = 2008952 };

/* A process's memory on one device; only the total counts. */
struct region_used {
	uint64_t contexts, modules, data, offset, total, unused[3];
};
struct region_utilization {
	uint64_t decoder, encoder, sm, unused[3];
};

#define X(field, place, bytes, count)                            \
	enum {                                                   \
		REGION_AT_##field = (place),                     \
		REGION_BYTES_##field = (bytes),                  \
		REGION_END_##field = (place) + (bytes) * (count) \
	};
REGION_FIELDS(X)
#undef X
#define X(field, place, bytes, count)                          \
	enum {                                                 \
		SLOT_AT_##field = (place),                     \
		SLOT_BYTES_##field = (bytes),                  \
		SLOT_END_##field = (place) + (bytes) * (count) \
	};
REGION_SLOT_FIELDS(X)
#undef X

_Static_assert(sizeof(struct region_used) == SLOT_BYTES_used, "as HAMi-core lays it out");
_Static_assert(sizeof(struct region_utilization) == SLOT_BYTES_utilization, "likewise");
_Static_assert((int)REGION_END_process == (int)REGION_AT_process_count, "likewise");
_Static_assert((int)SLOT_END_used == (int)SLOT_AT_monitor_used, "likewise");
_Static_assert((int)SLOT_END_utilization == (int)SLOT_AT_status, "likewise");
_Static_assert((int)REGION_END_later_lock == (int)REGION_SIZE, "likewise");
_Static_assert((int)SLOT_END_unused == (int)REGION_SLOT, "likewise");

struct region_device {
	char uuid[64];
	uint64_t limit;   /* bytes; 0: none */
	uint64_t percent; /* of its time; 0: all of it */
	uint64_t used;    /* bytes that the process holds */
	uint64_t busy;    /* percent of its time that the process uses; 0: not known */
};

/* The figures that a process writes. */
struct region_tell {
	int minor; /* of the version of a region that is made */
	int pid;
	int priority;      /* as HAMi counts: 0 high, 1 low */
	bool has_launched; /* since it told last */
	int count;
	struct region_device device[REGION_DEVICES];
};

/* The contents of the region: the container's limits, and the monitor's further settings. */
struct region_settings {
	int count;
	struct {
		char uuid[REGION_UUID];
		uint64_t limit, percent; /* 0: none */
	} device[REGION_DEVICES];
	bool is_blocked;  /* nothing is to be launched: one of higher priority works */
	bool is_switched; /* the share is to be held, because the GPU is shared */
};

/*
 * Writes a process's figures into its slot, made if it has none. A region is made if there is none,
 * with the limits given. The slots of the dead go. Reads the settings. Returns 0, -EAGAIN (another
 * process keeps the lock just now), -EPROTO (it is no region of a version that we know, and nothing
 * is written), or another negative errno; message has the reason.
 */
int region_tell(const char *path, const struct region_tell *tell, struct region_settings *settings,
                char *message, size_t size);
/* Reads the settings. Returns 0 or a negative errno. */
int region_read(const char *path, struct region_settings *settings);
/* Says that the process holds nothing any more. */
void region_leave(const char *path, int pid);

#endif
