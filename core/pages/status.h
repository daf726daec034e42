/* SPDX-License-Identifier: MIT */
/*
 * The status file: the figures of a job that schedulers made for AntMan read in its
 * GPU_STATUS_FILE. `status_file` names it, and `spillway stat --format antman` prints the same.
 *
 * A process of the job pushes it, by rename, when memory changed or the time of a step moved by 1
 * %, and not before STATUS_PUSH_NS after the last time. Names and meanings of the fields are
 * AntMan's.
 */
#ifndef SPILLWAY_STATUS_H
#define SPILLWAY_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/state/segment.h"

#define STATUS_PUSH_NS 10000000000ull

/* The figures of a job on one device; bytes, by enum segment_tier. */
struct status_device {
	char pci_bus_id[16];
	uint64_t used[2], peak[2], charged[2];
	bool has_spilled;
	uint64_t step_ns; /* 0: not known */
};

struct status {
	uint64_t
	    pushed_ns; /* CLOCK_MONOTONIC; the job's push after which it was known to stand there */
	int count;
	struct status_device device[SEGMENT_DEVICES];
};

enum { STATUS_TEXT_MAX = 680 * SEGMENT_DEVICES + 128 };

/* Writes the status as one line of JSON. Returns its length. */
size_t status_format(const struct status *status, char text[STATUS_TEXT_MAX]);

/*
 * Writes the file if it is time and *told, the contents as this process knows them, is out of date.
 * 0, also when there was nothing to do, or a negative errno. For the helper thread; waits for no
 * reader.
 */
int status_push(struct segment *segment, const char *path, struct status *told);

#endif
