/* SPDX-License-Identifier: MIT */
/*
 * One row per job and GPU, so that every figure has one meaning: the rows of all formats except the
 * JSON.
 */
#ifndef SPILLWAY_ROWS_H
#define SPILLWAY_ROWS_H

#include <stdbool.h>

#include "core/state/segment.h"
#include "tools/view/counters.h"
#include "tools/view/node.h"
#include "tools/view/sharing.h"

struct row {
	char job[64];
	char typed[NODE_NAME_MAX]; /* its name for commands */
	char user[NODE_USER_MAX];
	char labels[256];
	bool running;
	int processes;   /* live ones */
	bool is_of_page; /* of total limit_set and share_set are known, no more */
	int gpu; /* index among the job's devices; -1: none yet, the fields below are zero */
	struct segment_device device;
	uint64_t charged[2]; /* by enum segment_tier */
	bool is_apart;       /* its share may not hold: node_find_apart() */
	uint64_t orphaned;   /* of it on the device; pages do not say */
	uint64_t host_limit; /* and one; 0: unknown, or it is no number that holds */
	struct statistics total;
	struct sharing_seen sharing; /* of jobs that can be read; peer records 0: unknown */
};

struct rows {
	struct row *row;
	int count;
	int unreadable; /* jobs whose state cannot be read; each has been named */
};

/*
 * Reads those of one job of the state directory; job NULL: of all jobs of the node. The caller
 * frees them.
 */
void rows_read(struct rows *rows, const char *job);
/* Reads it as counter_read() does; also false where it is unknown. */
bool row_counter(const struct row *row, const struct counter *counter, uint64_t *value);
void rows_free(struct rows *rows);

#endif
