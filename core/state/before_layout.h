/* The segment of version 6 as it lies in its file (before.h). Private to its reader and its
 * test. */
#ifndef SPILLWAY_BEFORE_LAYOUT_H
#define SPILLWAY_BEFORE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum { BEFORE_SEATS = 256, BEFORE_DEVICES = 16, BEFORE_EXPORTS = 2048 };

/*
 * The facts of the settings, published (turn and two copies), and charges, peaks, spares, pinned.
 */
struct before_ledger {
	uint64_t word[24];
};

/* Words in the order of COUNTERS(X), as it was then and is now. */
struct before_counters {
	uint64_t ended, word[29], begun;
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
	_Alignas(64) char lock[64];
	uint64_t charged[BEFORE_DEVICES][2], orphaned[BEFORE_DEVICES], peak[BEFORE_DEVICES][2];
	struct before_device device[BEFORE_DEVICES];
	struct before_claim claim[BEFORE_DEVICES];
	struct before_ended ended[BEFORE_DEVICES], ended_next[BEFORE_DEVICES];
	uint64_t page_number;
};

struct before_seat {
	_Alignas(64) uint32_t life; /* the futex of its process's mutex */
	char mutex[60];
	uint32_t state; /* 1: live, 2: draining */
	int32_t pid;
	uint64_t started_ns, drained_ns, exiting_ns, override_hash;
	uint32_t threads, contexts;
	char command[64], complaint[256];
	_Alignas(64) struct before_ledger ledger[BEFORE_DEVICES];
	struct before_counters counters[BEFORE_DEVICES];
};

struct before_export {
	uint32_t owner, left, turn, device;
	uint64_t bytes, name, importers[BEFORE_SEATS / 64];
};

struct before_file {
	struct before_header header;
	struct before_seat seat[BEFORE_SEATS];
	uint64_t lanes[787];
	struct before_export export[BEFORE_EXPORTS];
};

static_assert(offsetof(struct before_header, lock) == 640, "frozen");
static_assert(sizeof(struct before_header) == 14208, "frozen");
static_assert(sizeof(struct before_seat) == 7488, "frozen");
static_assert(offsetof(struct before_file, export) == 14208 + 256 * 7488 + 6296, "frozen");

#endif
