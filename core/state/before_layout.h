/* The segment of version 5 as it lies in its file (before.h). Private to its reader and its
 * test. */
#ifndef SPILLWAY_BEFORE_LAYOUT_H
#define SPILLWAY_BEFORE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum { BEFORE_SLOTS = 256, BEFORE_DEVICES = 16, BEFORE_STATISTICS = 44 };

/* Words in the order of STATISTICS(X), as it was then and is now. */
struct before_statistics {
	uint64_t ended, word[BEFORE_STATISTICS], begun;
};

struct before_device {
	char uuid[48], pci_bus_id[16], name[64];
	uint64_t memory;
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
	uint64_t claim[BEFORE_DEVICES][3];
	struct before_statistics ended[BEFORE_DEVICES], ended_next[BEFORE_DEVICES];
	uint64_t page_number;
};

struct before_seat {
	_Alignas(64) uint32_t life; /* the futex of its process's mutex */
	char mutex[60];
	uint32_t state;
	int32_t pid;
	uint64_t started_ns, drained_ns, exiting_ns, override_hash;
	uint32_t threads, contexts;
	uint64_t charged[BEFORE_DEVICES][2];
	char command[64], complaint[256];
	struct before_statistics device[BEFORE_DEVICES];
};

/* The part of the file that is read; lanes and exports follow. */
struct before_file {
	struct before_header header;
	struct before_seat seat[BEFORE_SLOTS];
};

enum { BEFORE_SIZE = 1840704 }; /* of the whole file */

static_assert(offsetof(struct before_header, lock) == 640, "frozen");
static_assert(sizeof(struct before_header) == 15744, "frozen");
static_assert(offsetof(struct before_seat, charged) == 112, "frozen");
static_assert(sizeof(struct before_seat) == 6592, "frozen");

#endif
