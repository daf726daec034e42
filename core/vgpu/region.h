/* SPDX-License-Identifier: MIT */
/*
 * HAMi's shared region: the file of a container in which its monitor finds who holds what, and
 * writes what it wants (region_layout.h).
 *
 * Everybody in the container, and the monitor, may write to the file and cut it short. So it is
 * never mapped: it is read and written by system calls, once a second, and what is read is checked.
 * Those of the container keep a lock meanwhile, which conflicts with HAMi-core's own.
 */
#ifndef SPILLWAY_REGION_H
#define SPILLWAY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/vgpu/region_layout.h"

struct region_device {
	char uuid[64];
	uint64_t limit;   /* bytes; 0: none */
	uint64_t percent; /* of its time; 0: all of it */
	uint64_t used;    /* bytes that the process holds */
	uint64_t busy;    /* percent of its time that the process uses; 0: not known */
};

/* What a process tells. */
struct region_tell {
	int minor; /* of the version of a region that is made */
	int pid;
	int priority;      /* as HAMi counts: 0 high, 1 low */
	bool has_launched; /* since it told last */
	int count;
	struct region_device device[REGION_DEVICES];
};

/* What is found there: what a container may have, and what the monitor wants besides. */
struct region_orders {
	int count;
	struct {
		char uuid[REGION_UUID];
		uint64_t limit, percent; /* 0: none */
	} device[REGION_DEVICES];
	bool is_blocked;  /* nothing is to be launched: one of higher priority works */
	bool is_switched; /* the share is to be held, because the GPU is shared */
};

/*
 * Writes what a process tells into its slot, made if it has none, and into a region that is made if
 * there is none, with the limits told; the slots of the dead go. Reads the orders. Returns 0,
 * -EAGAIN (somebody else keeps the lock just now), -EPROTO (it is no region of a version that we
 * know, and nothing is written), or another negative errno; message says why.
 */
int region_tell(const char *path, const struct region_tell *tell, struct region_orders *orders,
                char *message, size_t size);
/* Reads the orders. Returns 0 or a negative errno. */
int region_read(const char *path, struct region_orders *orders);
/* Says that the process holds nothing any more. */
void region_leave(const char *path, int pid);

#endif
