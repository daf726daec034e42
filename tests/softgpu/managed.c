/* SPDX-License-Identifier: MIT */
/*
 * Managed memory: host memory that both sides use at one address. It counts as device memory block
 * by block. A block counts when a device prefetches it or a kernel touches it, and there is room. A
 * block that finds no room stays on the host, which is how over-subscription works. Touches by the
 * host are not seen, so a block comes back only by prefetching it to the host, by advice, or by
 * freeing it. Advice is kept for each page of 4 KiB, as the driver keeps it.
 */
#include "tests/softgpu/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/softgpu/machine.h"

#define NOWHERE CU_DEVICE_INVALID

/* The advice for a page of the host's, and where it was last prefetched to. */
struct advised {
	CUmemLocation preferred, last_prefetch;
	bool read_mostly;
	uint32_t accessed_by; /* devices, by bit */
	bool accessed_by_host;
};

enum { PAGE = 4096, DISCARDED = 0xdc /* what each byte is after it was discarded */ };

struct managed {
	pthread_mutex_t lock; /* kernels of several devices may touch blocks at once */
	struct advised *page; /* each; NULL: nothing was advised or prefetched */
	size_t blocks;
	int16_t *home; /* per block: the device that holds it, or -1 */
};

static const CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_INVALID, .id = NOWHERE};
static const struct advised untouched = {
    .preferred = {.type = CU_MEM_LOCATION_TYPE_INVALID, .id = NOWHERE},
    .last_prefetch = {.type = CU_MEM_LOCATION_TYPE_INVALID, .id = NOWHERE}};

static size_t pages_of(const struct managed *managed)
{
	return managed->blocks * (GRANULARITY / PAGE);
}

static const struct advised *page_at(const struct range *range, uint64_t address)
{
	const struct managed *managed = range->managed;
	return managed->page ? &managed->page[(address - range->base) / PAGE] : &untouched;
}

/* Makes the pages' books if they are not there; the lock is held. */
static bool keep_pages(struct managed *managed)
{
	if (managed->page)
		return true;
	managed->page = malloc(pages_of(managed) * sizeof(*managed->page));
	for (size_t i = 0; managed->page && i < pages_of(managed); i++)
		managed->page[i] = untouched;
	return managed->page != NULL;
}

CUresult managed_allocate(struct context *context, uint64_t size, unsigned int flags,
                          struct range **out)
{
	if (!device_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (size > window_size())
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t blocks = (size + GRANULARITY - 1) / GRANULARITY;
	struct managed *managed = calloc(1, sizeof(*managed));
	int16_t *home = malloc(blocks * sizeof(*home));
	void *memory = mmap(NULL, blocks * GRANULARITY, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct range *range = NULL;
	if (managed && home && memory != MAP_FAILED)
		range = range_add(RANGE_MANAGED, (uint64_t)memory, size, context);
	if (!range) {
		if (memory != MAP_FAILED)
			munmap(memory, blocks * GRANULARITY);
		free(home);
		free(managed);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_init(&managed->lock, NULL);
	managed->blocks = blocks;
	managed->home = home;
	for (size_t i = 0; i < blocks; i++)
		home[i] = -1;
	range->flags = flags;
	machine_count_host((int64_t)(blocks * GRANULARITY));
	pthread_rwlock_wrlock(&memory_lock);
	range->managed = managed;
	pthread_rwlock_unlock(&memory_lock);
	*out = range;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || size == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct range *range;
	result = managed_allocate(context, size, flags, &range);
	if (result == CUDA_SUCCESS)
		*out = range->base;
	return leave(result);
}

/* Moves one block to a device, or to the host (-1). */
static void move_block(struct managed *managed, size_t block, int device)
{
	int home = managed->home[block];
	if (home == device)
		return;
	if (device >= 0 && !machine_take(devices[device].machine_index, GRANULARITY))
		return;
	if (home >= 0)
		machine_give(devices[home].machine_index, GRANULARITY);
	machine_count_host(device < 0 ? (int64_t)GRANULARITY
	                   : home < 0 ? -(int64_t)GRANULARITY
	                              : 0);
	managed->home[block] = (int16_t)device;
}

static void move_blocks(struct range *range, uint64_t address, uint64_t size, int device)
{
	struct managed *managed = range->managed;
	size_t first = (address - range->base) / GRANULARITY;
	size_t last = (address + size - 1 - range->base) / GRANULARITY;
	pthread_mutex_lock(&managed->lock);
	for (size_t block = first; block <= last; block++)
		move_block(managed, block, device);
	pthread_mutex_unlock(&managed->lock);
}

void managed_touch(struct range *range, int device, uint64_t address)
{
	struct managed *managed = range->managed;
	if (!managed)
		return;
	size_t block = (address - range->base) / GRANULARITY;
	/* What prefers to be elsewhere is used from there. */
	pthread_mutex_lock(&managed->lock);
	CUmemLocation preferred = page_at(range, address)->preferred;
	bool comes = preferred.type == CU_MEM_LOCATION_TYPE_INVALID ||
	             (preferred.type == CU_MEM_LOCATION_TYPE_DEVICE && preferred.id == device);
	if (comes && managed->home[block] != device)
		move_block(managed, block, device);
	pthread_mutex_unlock(&managed->lock);
}

bool managed_is_on_device(struct range *range, uint64_t address)
{
	struct managed *managed = range->managed;
	if (!managed)
		return false;
	pthread_mutex_lock(&managed->lock);
	bool is = managed->home[(address - range->base) / GRANULARITY] >= 0;
	pthread_mutex_unlock(&managed->lock);
	return is;
}

void managed_free(struct range *range)
{
	struct managed *managed = range->managed;
	void *memory = (void *)range->base;
	struct pool *pool = range->pool;
	uint64_t size = range->size;
	range_remove(range);
	for (size_t block = 0; block < managed->blocks; block++)
		move_block(managed, block, -1);
	machine_count_host(-(int64_t)(managed->blocks * GRANULARITY));
	munmap(memory, managed->blocks * GRANULARITY);
	pthread_mutex_destroy(&managed->lock);
	free(managed->page);
	free(managed->home);
	free(managed);
	if (pool)
		managed_pool_gone(pool, size);
}

void managed_evict(struct range *range)
{
	move_blocks(range, range->base, range->size, -1);
}

bool managed_prefer(struct range *range, CUmemLocation location)
{
	struct managed *managed = range->managed;
	if (location.type == CU_MEM_LOCATION_TYPE_NONE)
		return true;
	pthread_mutex_lock(&managed->lock);
	bool kept = keep_pages(managed);
	for (size_t i = 0; kept && i < pages_of(managed); i++)
		managed->page[i].preferred = location;
	pthread_mutex_unlock(&managed->lock);
	return kept;
}

/* The managed range that holds all of [address, address + size), or NULL. */
static struct range *managed_range(uint64_t address, uint64_t size)
{
	struct range *range = range_find(address);
	bool holds = range && range->kind == RANGE_MANAGED && size &&
	             size <= range->size - (address - range->base);
	return holds ? range : NULL;
}

static bool location_is_valid(CUmemLocation location)
{
	switch ((int)location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_of(location.id) != NULL;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return true;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return location.id == 0;
	default:
		return false;
	}
}

/* Before locations there were ordinals, and a number for the host. */
static CUmemLocation location_of_ordinal(CUdevice ordinal)
{
	if (ordinal == CU_DEVICE_CPU)
		return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
}

static int home_of(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1;
}

static void advise_page(struct advised *page, CUmem_advise advice, CUmemLocation location)
{
	bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
		page->read_mostly = true;
		break;
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		page->read_mostly = false;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		page->preferred = location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		page->preferred = nowhere;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		if (device)
			page->accessed_by |= 1U << location.id;
		else
			page->accessed_by_host = true;
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		if (device)
			page->accessed_by &= ~(1U << location.id);
		else
			page->accessed_by_host = false;
		break;
	}
}

static CUresult advise(const char *call, CUdeviceptr address, size_t size, CUmem_advise advice,
                       CUmemLocation location)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct range *range = managed_range(address, size);
	bool located = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
	               advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
	               advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
	if (!range || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (located && !location_is_valid(location))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	pthread_mutex_lock(&range->managed->lock);
	if (!keep_pages(range->managed))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = (address - range->base) / PAGE;
	     result == CUDA_SUCCESS && i <= (address + size - 1 - range->base) / PAGE; i++)
		advise_page(&range->managed->page[i], advice, location);
	pthread_mutex_unlock(&range->managed->lock);
	return leave(result);
}

EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice ordinal)
{
	return advise(__func__, address, size, advice, location_of_ordinal(ordinal));
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice,
                               CUmemLocation location)
{
	return advise(__func__, address, size, advice, location);
}

/* A range that is to be elsewhere, or is no longer needed as it is, when the stream comes to it. */
struct prefetch {
	struct work work;
	uint64_t address, size;
	bool discards, moves;
	int home;
};

static CUresult run_prefetch(struct work *work, CUresult broken)
{
	(void)broken;
	struct prefetch *prefetch = (struct prefetch *)work;
	pthread_rwlock_rdlock(&memory_lock);
	struct range *range = managed_range(prefetch->address, prefetch->size);
	if (range && prefetch->discards)
		memset((void *)prefetch->address, DISCARDED, prefetch->size);
	if (range && prefetch->moves)
		move_blocks(range, prefetch->address, prefetch->size, prefetch->home);
	pthread_rwlock_unlock(&memory_lock);
	return CUDA_SUCCESS;
}

/* Queues it; location NULL: it stays where it is. */
static CUresult submit_prefetch(struct stream *stream, CUdeviceptr address, size_t size,
                                bool discards, const CUmemLocation *location)
{
	struct prefetch *prefetch = calloc(1, sizeof(*prefetch));
	struct managed *managed = managed_range(address, size)->managed;
	if (!prefetch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*prefetch = (struct prefetch){.work.run = run_prefetch,
	                              .address = address,
	                              .size = size,
	                              .discards = discards,
	                              .moves = location != NULL,
	                              .home = location ? home_of(*location) : -1};
	pthread_mutex_lock(&managed->lock);
	if (location && keep_pages(managed)) {
		uint64_t base = range_find(address)->base;
		for (size_t i = (address - base) / PAGE; i <= (address + size - 1 - base) / PAGE;
		     i++)
			managed->page[i].last_prefetch = *location;
	}
	pthread_mutex_unlock(&managed->lock);
	return stream_submit(stream, &prefetch->work);
}

static CUresult prefetch_to(const char *call, CUdeviceptr address, size_t size,
                            CUmemLocation location, unsigned int flags, CUstream handle)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!managed_range(address, size) || flags != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!location_is_valid(location))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	return leave(submit_prefetch(stream, address, size, false, &location));
}

static CUresult cuMemPrefetchAsync_on(const char *call, CUdeviceptr address, size_t size,
                                      CUdevice ordinal, CUstream stream)
{
	return prefetch_to(call, address, size, location_of_ordinal(ordinal), 0, stream);
}
EXPORT_ON_STREAM(cuMemPrefetchAsync,
                 (CUdeviceptr address, size_t size, CUdevice ordinal, CUstream stream), address,
                 size, ordinal, stream)

#define cuMemPrefetchAsync_v2_on prefetch_to
EXPORT_ON_STREAM(cuMemPrefetchAsync_v2,
                 (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags,
                  CUstream stream),
                 address, size, location, flags, stream)

/* --- batches: checked as a whole, then queued one after the other --- */

struct prefetch_batch {
	const CUdeviceptr *addresses;
	const size_t *sizes;
	size_t count;
	bool discards;
	const CUmemLocation *locations; /* NULL: the ranges stay where they are */
	const size_t *first;            /* the range each location begins with */
	size_t location_count;
};

static bool batch_is_formed(const struct prefetch_batch *batch)
{
	if (!batch->addresses || !batch->sizes || batch->count == 0)
		return false;
	if (batch->discards && !batch->locations && batch->location_count == 0)
		return true;
	if (!batch->locations || !batch->first || batch->location_count == 0 ||
	    batch->location_count > batch->count || batch->first[0] != 0)
		return false;
	for (size_t i = 1; i < batch->location_count; i++)
		if (batch->first[i] <= batch->first[i - 1])
			return false;
	return batch->first[batch->location_count - 1] < batch->count;
}

static const CUmemLocation *batch_location(const struct prefetch_batch *batch, size_t index)
{
	size_t i = 0;
	while (i + 1 < batch->location_count && batch->first[i + 1] <= index)
		i++;
	return batch->locations ? &batch->locations[i] : NULL;
}

static CUresult submit_batch(const char *call, const struct prefetch_batch *batch,
                             unsigned long long flags, CUstream handle)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	if (!batch_is_formed(batch) || flags != 0 || handle == NULL || handle == CU_STREAM_LEGACY)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	for (size_t i = 0; i < batch->count; i++) {
		const CUmemLocation *location = batch_location(batch, i);
		if (!managed_range(batch->addresses[i], batch->sizes[i]))
			return leave(CUDA_ERROR_INVALID_VALUE);
		if (location && !location_is_valid(*location))
			return leave(CUDA_ERROR_INVALID_DEVICE);
	}
	for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++)
		result = submit_prefetch(stream, batch->addresses[i], batch->sizes[i],
		                         batch->discards, batch_location(batch, i));
	return leave(result);
}

static CUresult cuMemPrefetchBatchAsync_on(const char *call, CUdeviceptr *addresses, size_t *sizes,
                                           size_t count, CUmemLocation *locations, size_t *first,
                                           size_t location_count, unsigned long long flags,
                                           CUstream stream)
{
	const struct prefetch_batch batch = {addresses, sizes, count,         false,
	                                     locations, first, location_count};
	return submit_batch(call, &batch, flags, stream);
}
EXPORT_ON_STREAM(cuMemPrefetchBatchAsync,
                 (CUdeviceptr * addresses, size_t *sizes, size_t count, CUmemLocation *locations,
                  size_t *first, size_t location_count, unsigned long long flags, CUstream stream),
                 addresses, sizes, count, locations, first, location_count, flags, stream)

static CUresult cuMemDiscardBatchAsync_on(const char *call, CUdeviceptr *addresses, size_t *sizes,
                                          size_t count, unsigned long long flags, CUstream stream)
{
	const struct prefetch_batch batch = {addresses, sizes, count, true, NULL, NULL, 0};
	return submit_batch(call, &batch, flags, stream);
}
EXPORT_ON_STREAM(cuMemDiscardBatchAsync,
                 (CUdeviceptr * addresses, size_t *sizes, size_t count, unsigned long long flags,
                  CUstream stream),
                 addresses, sizes, count, flags, stream)

static CUresult cuMemDiscardAndPrefetchBatchAsync_on(const char *call, CUdeviceptr *addresses,
                                                     size_t *sizes, size_t count,
                                                     CUmemLocation *locations, size_t *first,
                                                     size_t location_count,
                                                     unsigned long long flags, CUstream stream)
{
	if (!locations)
		return CUDA_ERROR_INVALID_VALUE;
	const struct prefetch_batch batch = {addresses, sizes, count,         true,
	                                     locations, first, location_count};
	return submit_batch(call, &batch, flags, stream);
}
EXPORT_ON_STREAM(cuMemDiscardAndPrefetchBatchAsync,
                 (CUdeviceptr * addresses, size_t *sizes, size_t count, CUmemLocation *locations,
                  size_t *first, size_t location_count, unsigned long long flags, CUstream stream),
                 addresses, sizes, count, locations, first, location_count, flags, stream)

/*
 * Who else may touch the memory meanwhile is not checked; the call only has its place in the
 * stream.
 */
static CUresult cuStreamAttachMemAsync_on(const char *call, CUstream handle, CUdeviceptr address,
                                          size_t length, unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!stream_find(context, handle))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	const struct range *range = range_find(address);
	bool whole = range && range->base == address && (length == 0 || length == range->size);
	bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
	             flags == CU_MEM_ATTACH_SINGLE;
	return leave(whole && known && range->kind == RANGE_MANAGED ? CUDA_SUCCESS
	                                                            : CUDA_ERROR_INVALID_VALUE);
}
EXPORT_ON_STREAM(cuStreamAttachMemAsync,
                 (CUstream stream, CUdeviceptr address, size_t length, unsigned int flags), stream,
                 address, length, flags)

/* The ordinal that the older attributes use for a location. */
static int ordinal_of(CUmemLocation location)
{
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return location.id;
	return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

static bool same_location(CUmemLocation a, CUmemLocation b)
{
	return a.type == b.type && (a.id == b.id || a.type == CU_MEM_LOCATION_TYPE_HOST);
}

/* Finds what holds for all pages of a part of the range. */
static struct advised common_page(const struct range *range, uint64_t address, uint64_t size)
{
	struct advised all = *page_at(range, address);
	for (size_t i = (address - range->base) / PAGE + 1;
	     range->managed->page && i <= (address + size - 1 - range->base) / PAGE; i++) {
		const struct advised *page = &range->managed->page[i];
		if (!same_location(all.preferred, page->preferred))
			all.preferred = nowhere;
		if (!same_location(all.last_prefetch, page->last_prefetch))
			all.last_prefetch = nowhere;
		all.read_mostly = all.read_mostly && page->read_mostly;
		all.accessed_by &= page->accessed_by;
		all.accessed_by_host = all.accessed_by_host && page->accessed_by_host;
	}
	return all;
}

static void list_accessors(const struct advised *page, int *list, size_t count)
{
	size_t used = 0;
	for (int i = 0; i < device_count && used < count; i++)
		if (page->accessed_by >> i & 1)
			list[used++] = i;
	if (page->accessed_by_host && used < count)
		list[used++] = CU_DEVICE_CPU;
	while (used < count)
		list[used++] = CU_DEVICE_INVALID;
}

static CUresult range_attribute(void *data, size_t size, CUmem_range_attribute attribute,
                                const struct advised *page)
{
	int *value = data;
	if (!data || size < sizeof(int) || size % sizeof(int) != 0 ||
	    (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && size != sizeof(int)))
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*value = page->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*value = ordinal_of(page->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		list_accessors(page, value, size / sizeof(int));
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*value = ordinal_of(page->last_prefetch);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*value = (int)page->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*value = page->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*value = (int)page->last_prefetch.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*value = page->last_prefetch.id;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *sizes,
                                        CUmem_range_attribute *attributes, size_t count,
                                        CUdeviceptr address, size_t size)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct range *range = managed_range(address, size);
	if (!data || !sizes || !attributes || count == 0 || !range)
		return leave(CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&range->managed->lock);
	struct advised page = common_page(range, address, size);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = range_attribute(data[i], sizes[i], attributes[i], &page);
	pthread_mutex_unlock(&range->managed->lock);
	return leave(result);
}

EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t data_size,
                                       CUmem_range_attribute attribute, CUdeviceptr address,
                                       size_t size)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct range *range = managed_range(address, size);
	if (!range)
		return leave(CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&range->managed->lock);
	struct advised page = common_page(range, address, size);
	result = range_attribute(data, data_size, attribute, &page);
	pthread_mutex_unlock(&range->managed->lock);
	return leave(result);
}
