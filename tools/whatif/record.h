/* SPDX-License-Identifier: MIT */
/*
 * Records: what a job's kernels take and use, as a survey measured it
 * (core/modules/placement/record.h).
 *
 * A record comes from a job: its processes leave one for each GPU beside its segment, or from a
 * file that `run --record` has made. Such a file has a line "spillway-record 1", a line "job NAME"
 * and then the surveys of the job's GPUs, before each a line "seen STEPS LAUNCHES": the program's
 * steps that were seen, and the launches in which they were looked for. What comes again exactly,
 * and is surveyed, may be several steps. Records are read strictly: a line that is not as the
 * format has it makes the whole record bad.
 */
#ifndef SPILLWAY_WHATIF_RECORD_H
#define SPILLWAY_WHATIF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/modules/placement/weigh.h"
#include "core/state/segment.h"

/* Memory that moves, in the order of addresses. */
struct record_piece {
	int64_t run; /* -1: no kernel uses it */
	bool is_on_host;
	uint64_t bytes, read;
};

/* A kernel: a plain launch, or one of a launched graph's. */
struct record_node {
	uint32_t kernel; /* the launch */
	uint32_t first, count;
};

/* An address that a kernel was given. */
struct record_address {
	uint32_t run;
	uint64_t offset; /* in bytes, from the beginning of the run */
};

struct survey_record {
	char name[64]; /* of the device */
	int gpu;
	uint64_t memory;  /* bytes of the device */
	uint64_t token;   /* of the run */
	uint64_t limit;   /* that was in force */
	uint64_t held;    /* bytes on both tiers */
	uint64_t to_host; /* bytes per second as moves have shown; 0: none has */
	uint64_t to_device;
	uint64_t seen_steps, seen_launches; /* 0: none were seen */
	int steps;                          /* that were measured; 0: launches of a while */
	bool is_shared, is_whole;
	struct record_piece *piece;
	size_t pieces;
	struct weigh_kernel *kernel;
	size_t kernels;
	uint32_t *use;
	size_t uses;
	uint32_t runs;
	struct record_node *node; /* of launches with known kernels, in the order of a launch */
	size_t nodes;
	struct record_address *address;
	size_t addresses;
};

struct records {
	char job[64];
	struct survey_record *gpu;
	int count;
};

enum { RECORDS_FILE_VERSION = 1 };

/*
 * Reads the text of a job's survey, or of a file. Returns false with a message where it is none.
 * records_free() frees what was read.
 */
bool records_parse(struct records *records, const char *text, char *message, size_t size);
void records_free(struct records *records);

/* Returns the text of the records that a job has left, or NULL. The caller frees it. */
char *records_of_job(const struct segment_view *view);
/* Returns the text of a file, or NULL after errno. */
char *records_text(const char *path);

#endif
