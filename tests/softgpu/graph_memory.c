/* SPDX-License-Identifier: MIT */
/*
 * Memory that graphs allocate and free. Its addresses are reserved when the node is made and stay.
 * Physical memory comes with the first launch. It is kept until cuDeviceGraphMemTrim(), beyond the
 * end of its graph: later graphs take it. Between a free and the next allocation no kernel may
 * touch it. Hardware would not notice. Managed memory is the same, but lies where managed memory
 * does, its bytes come to a device by touches, and go with its graph.
 */
#include <stdlib.h>

#include "tests/softgpu/graph.h"
#include "tests/softgpu/memory.h"

struct graph_memory {
	int references; /* nodes, launches that are not over, and being allocated */
	struct context *context;
	struct device *device;
	struct range *range; /* NULL: its context is gone */
	uint64_t base, size; /* size in whole pages */
	uint32_t access;     /* devices, by bit */
	bool managed, backed;
	bool allowed;              /* managed: kernels and copies may touch it; under memory_lock */
	struct physical *physical; /* backed, and not managed */
	bool allocated;            /* at the end of what is queued */
	int queued;                /* pieces of work that are about it */
	uint64_t owner;            /* the graph whose node allocates it */
	bool freed_by_owner, freed_by_other; /* some node of it does */
	struct graph_memory *prev, *next;
};

static struct graph_memory *memories;

/* Bytes that have physical memory: by one graph at least, or kept. */
static struct {
	uint64_t reserved, reserved_high, used_high;
} books[MAX_DEVICES];

/* Physical memory of graphs that are gone */
static struct kept {
	const struct device *device;
	struct physical *physical;
	uint64_t size;
	struct kept *prev, *next;
} * keeps;

/* Every device may access managed memory; it counts on the one that it prefers. */
static CUresult check_managed(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *what, struct device **device)
{
	const CUmemLocation *location = &what->poolProps.location;
	CUresult result = managed_location_check(location);
	if (result != CUDA_SUCCESS)
		return result;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		*device = device_of(location->id);
	return what->bytesize > window_size() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Checks what is asked for; the devices that may access it, by bit. */
static CUresult check(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *what, struct device **device,
                      uint32_t *access)
{
	const CUmemPoolProps *properties = &what->poolProps;
	if (what->bytesize == 0 || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return check_managed(what, device);
	if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	*device = device_of(properties->location.id);
	if (!*device)
		return CUDA_ERROR_INVALID_DEVICE;
	*access = 1U << (*device)->index;
	for (size_t i = 0; i < what->accessDescCount; i++) {
		const CUmemAccessDesc *wanted = &what->accessDescs[i];
		const struct device *other = device_of(wanted->location.id);
		if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !other)
			return CUDA_ERROR_INVALID_DEVICE;
		if (wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		*access |= 1U << other->index;
	}
	return what->bytesize > window_size() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Finds addresses. */
static bool place(struct graph_memory *memory, struct context *context, uint64_t size)
{
	pthread_rwlock_wrlock(&memory_lock);
	memory->base = window_reserve(memory->size, 0, 0);
	pthread_rwlock_unlock(&memory_lock);
	memory->range = memory->base ? range_add(RANGE_GRAPH, memory->base, size, context) : NULL;
	if (!memory->range && memory->base)
		window_unreserve(memory->base, memory->size);
	return memory->range != NULL;
}

static bool place_managed(struct graph_memory *memory, struct context *context,
                          const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *what)
{
	if (managed_allocate(context, what->bytesize, CU_MEM_ATTACH_GLOBAL, &memory->range) !=
	    CUDA_SUCCESS)
		return false;
	memory->base = memory->range->base;
	if (managed_prefer(memory->range, what->poolProps.location))
		return true;
	managed_free(memory->range);
	return false;
}

CUresult graph_memory_new(const struct graph *graph, struct context *context,
                          CUDA_MEM_ALLOC_NODE_PARAMS_v2 *what, struct graph_memory **out)
{
	struct device *device = context->device;
	uint32_t access = 0;
	CUresult result = check(what, &device, &access);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph_memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->size = (what->bytesize + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	memory->managed = what->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
	if (!(memory->managed ? place_managed(memory, context, what)
	                      : place(memory, context, what->bytesize))) {
		free(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_rwlock_wrlock(&memory_lock);
	memory->range->graph_memory = memory;
	pthread_rwlock_unlock(&memory_lock);
	memory->range->device = device->index;
	memory->references = 1;
	memory->context = context;
	memory->device = device;
	memory->access = access;
	memory->owner = graph->serial;
	DL_APPEND(memories, memory);
	what->dptr = memory->base;
	*out = memory;
	return CUDA_SUCCESS;
}

CUresult graph_memory_for_free(const struct graph *graph, CUdeviceptr address,
                               struct graph_memory **out)
{
	const struct range *range = range_find(address);
	if (!range || range->base != address || !range->graph_memory)
		return CUDA_ERROR_INVALID_VALUE;
	struct graph_memory *memory = range->graph_memory;
	bool own = memory->owner == graph->serial;
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		if (node->memory == memory && node->params.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (memory->freed_by_owner || (own && memory->freed_by_other))
		return CUDA_ERROR_INVALID_VALUE;
	memory->freed_by_owner = own;
	memory->freed_by_other = memory->freed_by_other || !own;
	graph_memory_reference(memory);
	*out = memory;
	return CUDA_SUCCESS;
}

static void count_reserved(const struct device *device, int64_t bytes)
{
	uint64_t reserved = books[device->index].reserved += (uint64_t)bytes;
	if (reserved > books[device->index].reserved_high)
		books[device->index].reserved_high = reserved;
	if (reserved > books[device->index].used_high)
		books[device->index].used_high = reserved;
}

static void drop(struct kept *kept)
{
	count_reserved(kept->device, -(int64_t)kept->size);
	physical_drop(kept->physical);
	DL_DELETE(keeps, kept);
	free(kept);
}

/* Returns physical memory of that size from a graph that is gone, or NULL. */
static struct physical *take_kept(const struct graph_memory *memory)
{
	struct kept *kept;
	DL_FOREACH (keeps, kept) {
		if (kept->device == memory->device && kept->size == memory->size) {
			struct physical *physical = kept->physical;
			DL_DELETE(keeps, kept);
			free(kept);
			return physical;
		}
	}
	return NULL;
}

void graph_memory_empty(const struct device *device)
{
	struct kept *kept, *next;
	DL_FOREACH_SAFE(keeps, kept, next)
	{
		if (kept->device == device)
			drop(kept);
	}
}

/* Takes the physical memory away, to keep it or not; nothing may be queued that needs it. */
static void unback(struct graph_memory *memory, bool keeps_it)
{
	if (!memory->backed)
		return;
	memory->backed = false;
	struct kept *kept = NULL;
	if (keeps_it && !memory->managed)
		kept = calloc(1, sizeof(*kept));
	if (!kept)
		count_reserved(memory->device, -(int64_t)memory->size);
	if (memory->managed) {
		managed_evict(memory->range);
		return;
	}
	pthread_rwlock_wrlock(&memory_lock);
	window_unmap(memory->base, memory->size);
	pthread_rwlock_unlock(&memory_lock);
	if (kept) {
		*kept = (struct kept){
		    .device = memory->device, .physical = memory->physical, .size = memory->size};
		DL_APPEND(keeps, kept);
	} else {
		physical_drop(memory->physical);
	}
	memory->physical = NULL;
}

static CUresult back(struct graph_memory *memory)
{
	if (memory->backed)
		return CUDA_SUCCESS;
	bool was_kept = false;
	if (!memory->managed) {
		memory->physical = take_kept(memory);
		was_kept = memory->physical != NULL;
		CUresult result = CUDA_SUCCESS;
		if (!was_kept)
			result =
			    physical_create(memory->device->index, memory->size, &memory->physical);
		if (result != CUDA_SUCCESS) {
			graph_memory_empty(memory->device);
			result =
			    physical_create(memory->device->index, memory->size, &memory->physical);
		}
		if (result != CUDA_SUCCESS)
			return result;
		pthread_rwlock_wrlock(&memory_lock);
		window_map(memory->base, memory->physical);
		pthread_rwlock_unlock(&memory_lock);
	}
	memory->backed = true;
	if (!was_kept)
		count_reserved(memory->device, (int64_t)memory->size);
	return CUDA_SUCCESS;
}

void graph_memory_reference(struct graph_memory *memory)
{
	memory->references++;
}

/* The addresses mean nothing any more. */
static void dissolve(struct graph_memory *memory, bool keeps_it)
{
	struct range *range = memory->range;
	if (!range)
		return;
	if (memory->managed) {
		unback(memory, false);
		memory->range = NULL;
		managed_free(range);
		return;
	}
	range_remove(range);
	memory->range = NULL;
	unback(memory, keeps_it);
	pthread_rwlock_wrlock(&memory_lock);
	window_unreserve(memory->base, memory->size);
	pthread_rwlock_unlock(&memory_lock);
}

void graph_memory_unreference(struct graph_memory *memory)
{
	if (--memory->references)
		return;
	dissolve(memory, true);
	DL_DELETE(memories, memory);
	free(memory);
}

/* Sets whether it is allocated; being allocated is one reference. */
static void set_allocated(struct graph_memory *memory, bool allocated)
{
	if (memory->allocated != allocated)
		memory->references += allocated ? 1 : -1; /* the caller has one, too */
	memory->allocated = allocated;
}

void graph_memory_forget(struct range *range)
{
	struct graph_memory *memory = range->graph_memory;
	graph_memory_reference(memory);
	dissolve(memory, false);
	set_allocated(memory, false);
	graph_memory_unreference(memory);
}

CUresult graph_memory_prepare(struct graph_memory *memory, bool may_be_allocated)
{
	if (!memory->range)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (memory->allocated && !may_be_allocated)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < device_count; i++)
		if (memory->access >> i & 1 && !window_view(&devices[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
	return back(memory);
}

bool graph_memory_may_touch(const struct graph_memory *memory)
{
	return !memory->managed || memory->allowed;
}

bool graph_memory_is_allocated(const struct graph_memory *memory)
{
	return memory->allocated;
}

bool graph_memory_freed_in_graph(const struct graph_memory *memory)
{
	return memory->freed_by_owner;
}

struct memory_work {
	struct work work;
	struct graph_memory *memory;
	bool allow;
};

static CUresult run_memory_work(struct work *work, CUresult broken)
{
	const struct memory_work *change = (const struct memory_work *)work;
	struct graph_memory *memory = change->memory;
	bool done = true;
	(void)broken;
	pthread_mutex_lock(&driver_lock);
	pthread_rwlock_wrlock(&memory_lock);
	memory->allowed = change->allow;
	for (int i = 0; i < device_count && memory->physical; i++)
		if (memory->access >> i & 1)
			done = window_allow(memory->base, memory->size, &devices[i], change->allow,
			                    change->allow) &&
			       done;
	pthread_rwlock_unlock(&memory_lock);
	pthread_mutex_unlock(&driver_lock);
	return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void release_memory_work(struct work *work)
{
	struct graph_memory *memory = ((struct memory_work *)work)->memory;
	memory->queued--;
	graph_memory_unreference(memory);
}

struct work *graph_memory_work(struct graph_memory *memory, bool allocate)
{
	struct memory_work *change = calloc(1, sizeof(*change));
	if (!change)
		return NULL;
	change->work.run = run_memory_work;
	change->work.release = release_memory_work;
	change->memory = memory;
	change->allow = allocate;
	memory->queued++;
	graph_memory_reference(memory);
	set_allocated(memory, allocate);
	return &change->work;
}

CUresult graph_memory_free(struct range *range, struct stream *stream)
{
	struct graph_memory *memory = range->graph_memory;
	if (!memory->allocated || memory->freed_by_owner)
		return CUDA_ERROR_INVALID_VALUE;
	struct work *work = graph_memory_work(memory, false);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream)
		return stream_submit(stream, work);
	pthread_mutex_unlock(&driver_lock);
	work->run(work, CUDA_SUCCESS);
	pthread_mutex_lock(&driver_lock);
	work_free(work);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice ordinal)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	struct graph_memory *memory;
	DL_FOREACH (memories, memory) {
		if (memory->device == device && !memory->allocated && !memory->queued)
			unback(memory, false);
	}
	graph_memory_empty(device);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                             void *value)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	const uint64_t answers[] = {
	    [CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] = books[device->index].reserved,
	    [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH] = books[device->index].used_high,
	    [CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] = books[device->index].reserved,
	    [CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] = books[device->index].reserved_high,
	};
	if (!value || (unsigned int)attribute >= sizeof(answers) / sizeof(*answers))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*(cuuint64_t *)value = answers[attribute];
	return leave(CUDA_SUCCESS);
}

/* The high-water marks can only be set back. */
EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                             void *value)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (!value || *(const cuuint64_t *)value != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		books[device->index].used_high = books[device->index].reserved;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		books[device->index].reserved_high = books[device->index].reserved;
	else
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(CUDA_SUCCESS);
}
