/* SPDX-License-Identifier: MIT */
/*
 * A ring as it lies in its file, and what the files of this room share about it. Private.
 *
 * A change of a struct here, of EVENTS, or of a code's meaning in an event (codes.h) raises
 * RING_VERSION. magic, version and size keep their places.
 *
 * ticket    number of a record: the first is 0. It lies in place ticket % records
 * records   how many have pages. The ring grows before its first places are used again, or not at
 *           all, so that no record's place changes
 * sequence  of a place: 2 * ticket + 1 while that record is being written, 2 * ticket + 2 once it
 *           is whole. For example, the record of ticket 3 is whole at 8. A writer that finds
 *           another one at work there, or come before it, drops its record, so that no record is of
 *           two writers
 */
#ifndef SPILLWAY_RING_LAYOUT_H
#define SPILLWAY_RING_LAYOUT_H

#include <assert.h>
#include <stdbool.h>

#include "core/base/shared_file.h"
#include "core/state/layout.h"
#include "core/rings/event.h"
#include "core/state/ring_files.h"

#define RING_MAGIC "SPILLRNG"

enum {
	RING_VERSION = 3,
	RING_RECORDS = 8192,
	RING_RECORDS_FIRST = 960, /* with the header 64 KiB */
};

struct ring_header {
	char magic[8];
	uint32_t version;
	_Atomic uint32_t records; /* there is room for: RING_RECORDS_FIRST, or later all */
	uint64_t size;
	char boot_id[SEGMENT_BOOT_ID_MAX];
	char job[64];
	char command[64];
	int32_t pid;                    /* in its own namespace */
	int8_t device[SEGMENT_DEVICES]; /* ordinal -> index in the job; -1: none */
	uint64_t started_ns;            /* CLOCK_REALTIME; of its slot */
	uint64_t realtime_ns;           /* both clocks at one moment */
	uint64_t monotonic_ns;
	_Alignas(64) _Atomic uint64_t next; /* ticket */
};

/* Fields are written one by one while a reader may read: each is atomic. */
struct ring_record {
	_Atomic uint64_t sequence;
	_Atomic uint64_t begin_ns, duration_ns;
	_Atomic uint64_t value[3];
	_Atomic uint64_t object;
	_Atomic uint64_t what; /* ring_pack() */
};

struct ring_file {
	_Alignas(4096) struct ring_header header;
	_Alignas(4096) struct ring_record record[RING_RECORDS];
};

static const struct shared_format ring_format = {
    .magic = RING_MAGIC, .version = RING_VERSION, .size = sizeof(struct ring_file)};

static_assert(sizeof(struct ring_record) == 64, "layout changed: raise RING_VERSION");
static_assert(offsetof(struct ring_header, next) == 256, "layout changed: raise RING_VERSION");
static_assert(offsetof(struct ring_file, record) == 4096, "layout changed: raise RING_VERSION");
static_assert(EVENT_KINDS == 18, "an event more or less: raise RING_VERSION");
static_assert((RING_RECORDS & (RING_RECORDS - 1)) == 0, "tickets may wrap");

static inline uint64_t ring_pack(const struct event *event)
{
	return (uint64_t)event->context << 32 | (uint64_t)(uint16_t)event->device << 16 |
	       (uint16_t)event->kind;
}

#endif
