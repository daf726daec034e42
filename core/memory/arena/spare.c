/* SPDX-License-Identifier: MIT */
/*
 * Spare chunks. Rules: runs inside the user's process; the driver is called without the lock.
 *
 * Memory that becomes free is kept for a second and charged meanwhile (device_pool, host_pool). Of
 * each size and tier at most a sixteenth of the limit is kept, but 64 MiB at least. For example,
 * below a limit of 4 GiB it is 256 MiB. It goes first when room is wanted, and with the device's
 * last context.
 */
#include "core/memory/arena/spare.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/late.h"
#include "core/base/lock.h"
#include "core/cuda/idle.h"
#include "core/memory/arena/host_probe.h"
#include "core/budget/exported.h"

enum { TIERS = 2, SIZES = 3, SPARES_MAX = 64, KEPT_MS = 1000, PREFILL = 4 };

#define SMALLEST ((uint64_t)2 << 20)
/* The bytes that are kept of a size: two of the largest chunks, and more where there is much. */
#define KEPT_LEAST ((uint64_t)64 << 20)
enum { KEPT_PART = 16 };

struct shelf {
	struct chunk chunk[SPARES_MAX];
	uint32_t since[SPARES_MAX]; /* when it came, oldest first */
	unsigned int count;
	unsigned int missed; /* takes in vain since spare_missing() was asked */
};

static struct spares {
	LOCK_OF(SPARES) lock;
	_Atomic(void *) shelves; /* TIERS times SIZES; without memory nothing is kept */
} store[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = {.lock = LOCK_FREE}};

/* Returns the shelves of a tier; NULL: there is no memory for them. */
static struct shelf *shelves_of(const struct device *device, int tier)
{
	struct shelf *shelves =
	    late_make(&store[device->id.ordinal].shelves, TIERS * SIZES * sizeof(*shelves));

	return shelves ? shelves + tier * SIZES : NULL;
}

/*
 * Returns the shelf of chunks of this size (2, 8 and 32 MiB). Returns NULL for those of other
 * sizes, or made in a particular way, of which nothing is kept.
 */
static struct shelf *shelf_of(const struct device *device, const struct chunk *chunk)
{
	struct shelf *shelf = shelves_of(device, chunk->tier);

	if (!shelf || chunk->is_exportable || chunk->like)
		return NULL;
	switch (chunk->size >> 20) {
	case 2:
		return &shelf[0];
	case 8:
		return &shelf[1];
	case 32:
		return &shelf[2];
	default:
		return NULL;
	}
}

unsigned int spare_take(struct device *device, const struct chunk *like,
                        CUmemGenericAllocationHandle *handles, unsigned int count)
{
	struct spares *spares = &store[device->id.ordinal];
	struct shelf *shelf = shelf_of(device, like);
	unsigned int taken = 0;

	if (!shelf)
		return 0;
	lock_acquire(&spares->lock);
	while (taken < count && shelf->count)
		handles[taken++] = shelf->chunk[--shelf->count].handle;
	if (taken)
		device_note_spare(device, like->tier, -(int64_t)(taken * like->size));
	else
		shelf->missed++;
	lock_release(&spares->lock);
	return taken;
}

struct chunk_source spare_source(struct device *device)
{
	return (struct chunk_source){.device = device->handle,
	                             .ordinal = device->id.ordinal,
	                             .host_nodes = &device->host_node,
	                             .host_node_count = 1,
	                             .numa_error = &device->numa_error,
	                             .counters = device->statistics};
}

CUresult spare_create(struct device *device, struct chunk *chunk)
{
	struct chunk_source source = spare_source(device);
	const struct host_probe *probe;

	if (chunk->tier == SEGMENT_ON_HOST) {
		if (!host_probe_allows(device))
			return CUDA_ERROR_NOT_SUPPORTED;
		probe = host_probe_of(device);
		source.avoids_numa = probe->numa == PROBE_CRASHED;
		if (probe->node_count) {
			source.host_nodes = probe->nodes;
			source.host_node_count = probe->node_count;
		}
	}
	return chunk_make(&source, chunk);
}

void spare_release(struct device *device, const struct chunk *chunk)
{
	/* This comes before the driver gives the handle to other memory. */
	uint64_t key = chunk->is_exportable ? exported_take(chunk->handle) : 0;

	chunk_release(chunk);
	if (chunk->tier == SEGMENT_ON_DEVICE)
		device_uncharge_exported(device, key, chunk->size);
	else
		device_uncharge(device, SEGMENT_ON_HOST, chunk->size);
}

static uint64_t kept_most(const struct device *device, uint64_t limit)
{
	uint64_t memory = device->id.memory;
	uint64_t part = (limit < memory ? limit : memory) / KEPT_PART;

	return part > KEPT_LEAST ? part : KEPT_LEAST;
}

uint64_t spare_keeps(const struct device *device, const struct terms *terms)
{
	uint64_t most = kept_most(device, terms->limit);

	return most < SPARES_MAX * SMALLEST ? most : SPARES_MAX * SMALLEST;
}

/* Keeps chunks, so many bytes of a size at most. Returns how many are left, the first so many. */
static unsigned int spare_keep(struct device *device, struct chunk *chunks, unsigned int count,
                               uint64_t most)
{
	struct spares *spares = &store[device->id.ordinal];
	int64_t kept[TIERS] = {0};
	uint32_t now = clock_coarse_ms();
	unsigned int left = 0;

	lock_acquire(&spares->lock);
	for (unsigned int i = 0; i < count; i++) {
		struct shelf *shelf = shelf_of(device, &chunks[i]);

		if (!shelf || shelf->count == SPARES_MAX ||
		    (shelf->count + 1) * chunks[i].size > most) {
			chunks[left++] = chunks[i];
			continue;
		}
		shelf->chunk[shelf->count] = chunks[i];
		shelf->since[shelf->count++] = now;
		kept[chunks[i].tier] += (int64_t)chunks[i].size;
	}
	for (int tier = 0; tier < TIERS; tier++)
		if (kept[tier])
			device_note_spare(device, (enum segment_tier)tier, kept[tier]);
	lock_release(&spares->lock);
	return left;
}

/* Returns whether to release memory now would wait for running work. */
static bool spare_would_wait(const struct device *device)
{
	int unmap = host_probe_unmap(device);

	return unmap != CUDA_SUCCESS && unmap != PROBE_UNKNOWN && !idle_is_seen();
}

void spare_give(struct device *device, struct chunk *chunks, unsigned int count,
                const struct terms *terms)
{
	unsigned int left = spare_keep(device, chunks, count, kept_most(device, terms->limit));

	if (left && spare_would_wait(device))
		left = spare_keep(device, chunks, left, UINT64_MAX);
	for (unsigned int i = 0; i < left; i++)
		spare_release(device, &chunks[i]);
}

static bool spare_do_is_due(const struct shelf *shelf)
{
	return shelf->count && clock_coarse_ms() - shelf->since[0] >= KEPT_MS;
}

bool spare_is_due(struct device *device)
{
	struct spares *spares = &store[device->id.ordinal];
	const struct shelf *shelf = late_of(&spares->shelves);
	bool is_any = false;

	lock_acquire(&spares->lock);
	for (int i = 0; shelf && i < TIERS * SIZES; i++)
		is_any |= spare_do_is_due(&shelf[i]);
	lock_release(&spares->lock);
	return is_any;
}

/* Takes the oldest spare of a shelf, if it is to go. */
static bool take_oldest(struct device *device, struct shelf *shelf, bool all, struct chunk *chunk)
{
	struct spares *spares = &store[device->id.ordinal];
	bool goes;

	lock_acquire(&spares->lock);
	goes = spare_do_is_due(shelf) || (all && shelf->count);
	if (goes) {
		*chunk = shelf->chunk[0];
		shelf->count--;
		memmove(shelf->chunk, shelf->chunk + 1, shelf->count * sizeof(*shelf->chunk));
		memmove(shelf->since, shelf->since + 1, shelf->count * sizeof(*shelf->since));
		device_note_spare(device, chunk->tier, -(int64_t)chunk->size);
	}
	lock_release(&spares->lock);
	return goes;
}

uint64_t spare_trim(struct device *device, enum segment_tier tier, bool all)
{
	struct shelf *shelves = shelves_of(device, (int)tier);
	uint64_t released = 0;

	for (int i = 0; shelves && i < SIZES; i++) {
		struct chunk chunk;

		while (take_oldest(device, &shelves[i], all, &chunk)) {
			spare_release(device, &chunk);
			released += chunk.size;
		}
	}
	return released;
}

/* Large chunks cost little per byte; only small ones are worth being made ahead. */
#define PREFILLED SMALLEST

unsigned int spare_missing(struct device *device, enum segment_tier tier)
{
	struct spares *spares = &store[device->id.ordinal];
	struct shelf *shelf = shelf_of(device, &(struct chunk){.size = PREFILLED, .tier = tier});
	unsigned int missing;

	if (!shelf)
		return 0;
	lock_acquire(&spares->lock);
	missing = shelf->missed && shelf->count < PREFILL ? PREFILL - shelf->count : 0;
	shelf->missed = 0;
	lock_release(&spares->lock);
	return missing;
}

void spare_prefill(struct device *device, const struct terms *terms, enum segment_tier tier,
                   unsigned int count)
{
	uint64_t limit = tier == SEGMENT_ON_DEVICE ? terms_limit_of_movable(terms)
	                                           : terms_host_limit(terms, device);
	struct chunk chunk = {.size = PREFILLED, .tier = tier};
	/* The last of the limit is left, because other processes of the job may want it. */
	uint64_t most = limit - limit / 4;

	for (; count; count--) {
		if ((tier == SEGMENT_ON_DEVICE ? device_charge_moved(device, chunk.size, most)
		                               : device_charge_host(device, chunk.size, most)) != 0)
			return;
		if (spare_create(device, &chunk) != CUDA_SUCCESS) {
			device_uncharge(device, tier, chunk.size);
			return;
		}
		spare_give(device, &chunk, 1, terms);
	}
}
