/* SPDX-License-Identifier: MIT */
/* The segment of version 7 as it lies in its file (before.h). Private to its reader and its
 * test. */
#ifndef SPILLWAY_BEFORE_LAYOUT_H
#define SPILLWAY_BEFORE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BEFORE_ROW = 64, /* seats */
	BEFORE_ROWS = 64,
	BEFORE_SEATS = BEFORE_ROWS * BEFORE_ROW,
	BEFORE_DEVICES = 16,
	BEFORE_EXPORTS = 2048,
	BEFORE_PAGE = 4096
};

/*
 * The facts of the settings, published (turn and two copies), and charges, peaks, spares, pinned.
 */
struct before_ledger {
	uint64_t word[24];
};

/* The counters, as they were then. */
#define BEFORE_COUNTERS(X) \
	X(pinned_used)     \
	X(allocations)     \
	X(spills)          \
	X(spilled_bytes)   \
	X(refusals)        \
	X(told_limit)      \
	X(spill_reason)    \
	X(launches)        \
	X(graph_launches)  \
	X(busy_ns)         \
	X(idle_ns)         \
	X(idle_slots)      \
	X(share_held)      \
	X(share_estimated) \
	X(paused)          \
	X(steps)           \
	X(step_ns)         \
	X(demotions)       \
	X(promotions)      \
	X(demoted_bytes)   \
	X(promoted_bytes)  \
	X(queued_moves)    \
	X(move_ns)         \
	X(move_longest_ns) X(provider) X(numa_error) X(host_error) X(managed_error) X(pinned_error)

struct before_counters {
	uint64_t ended;
	struct {
		uint64_t launches, graph_launches;
	} place[4];
#define X(name) uint64_t name;
	BEFORE_COUNTERS(X)
#undef X
	uint64_t begun;
};

struct before_books {
	_Alignas(64) struct before_ledger ledger;
	struct before_counters counters;
	uint64_t placed;
};

struct before_ended {
	struct before_counters counters;
	uint64_t facts[8];
};

struct before_device {
	char uuid[48], pci_bus_id[16], name[64];
	uint64_t memory;
};

struct before_claim {
	uint64_t limit, grown, judged_ns, generation, settings;
};

struct before_header {
	char magic[8];
	uint32_t version, is_unnamed;
	uint64_t size;
	char boot_id[40], job[64], labels[256], run[64], shared_by[96];
	uint64_t created_ns, seen_ns, sequence;
	uint32_t retiring, device_count;
	uint64_t token, page_ns, status_ns, tended_ns;
	uint32_t is_removed;
	_Alignas(64) char lock[64];
	/* a total of 1 << 63 and a seat: what is charged stands in that seat alone */
	uint64_t charged[BEFORE_DEVICES][2], orphaned[BEFORE_DEVICES], peak[BEFORE_DEVICES][2];
	struct before_device device[BEFORE_DEVICES];
	struct before_claim claim[BEFORE_DEVICES];
	struct before_ended ended[BEFORE_DEVICES], ended_next[BEFORE_DEVICES];
	uint64_t page_number;
	uint32_t rows, probed;
	uint64_t live[BEFORE_ROWS], draining[BEFORE_ROWS];
};

struct before_seat {
	_Alignas(64) uint32_t life; /* the futex of its process's mutex */
	char mutex[60];
	uint32_t has_life;
	int32_t pid;
	uint64_t started_ns, drained_ns, exiting_ns, override_hash;
	uint32_t threads, contexts;
	char command[64], complaint[256];
	uint64_t importing[BEFORE_EXPORTS / 64];
};

struct before_export {
	uint32_t owner, left, turn, device;
	uint64_t bytes, name;
};

struct before_row {
	_Alignas(BEFORE_PAGE) struct before_seat seat[BEFORE_ROW];
	struct before_books books[BEFORE_DEVICES][BEFORE_ROW];
};

/* The file ends behind the last row's seats, or behind the books of its last device. */
struct before_file {
	struct before_header header;
	struct before_export export[BEFORE_EXPORTS];
	char lanes[98456];
	struct before_row row[BEFORE_ROWS];
};

static_assert(offsetof(struct before_header, lock) == 640, "frozen");
static_assert(sizeof(struct before_header) == 17280, "frozen");
static_assert(sizeof(struct before_counters) == 312, "frozen");
static_assert(sizeof(struct before_seat) == 704, "frozen");
static_assert(sizeof(struct before_books) == 512, "frozen");
static_assert(sizeof(struct before_row) == 64 * 704 + 16 * 64 * 512, "frozen");
static_assert(offsetof(struct before_file, row) == 184320, "frozen");

#endif
