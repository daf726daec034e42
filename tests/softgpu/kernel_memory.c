/* SPDX-License-Identifier: MIT */
/*
 * The memory that the executor may touch: the device's view of the window, and pinned or managed
 * memory.
 */
#include "tests/softgpu/memory.h"

/* Called by kernels for addresses outside the window. */
static bool host_access(void *cookie, uint64_t address, size_t size, bool write)
{
	const struct context *context = cookie;
	(void)write;
	pthread_rwlock_rdlock(&memory_lock);
	struct range *range = range_find(address);
	bool allowed = range && size <= range->size - (address - range->base) &&
	               (!range->graph_memory || graph_memory_may_touch(range->graph_memory));
	if (allowed && range->kind == RANGE_MANAGED)
		managed_touch(range, context->device->index, address);
	if (allowed && config()->host_bandwidth && is_on_host(address))
		host_link_access(context->device, size);
	pthread_rwlock_unlock(&memory_lock);
	return allowed;
}

/* Called by kernels for addresses inside the window, where the host's memory is not cached. */
static void window_access(void *cookie, uint64_t address, size_t size)
{
	const struct context *context = cookie;
	pthread_rwlock_rdlock(&memory_lock);
	if (is_on_host(address))
		host_link_access(context->device, size);
	pthread_rwlock_unlock(&memory_lock);
}

/* Variables of a module; the driver lock is held, as modules are loaded under it. */
static uint64_t allocate(void *cookie, size_t size, size_t align)
{
	struct range *range;
	(void)align; /* every allocation is aligned to more than a variable can ask */
	if (device_allocate(cookie, size ? size : 1, RANGE_MODULE, &range) != CUDA_SUCCESS)
		return 0;
	return range->base;
}

static uint64_t allocate_managed(void *cookie, size_t size, size_t align)
{
	struct range *range;
	(void)align;
	if (managed_allocate(cookie, size, CU_MEM_ATTACH_GLOBAL, &range) != CUDA_SUCCESS)
		return 0;
	range->of_module = true;
	return range->base;
}

static void release(void *cookie, uint64_t address)
{
	(void)cookie;
	struct range *range = range_find(address);
	if (range && range->kind == RANGE_MODULE)
		device_free(range);
	else if (range && range->of_module)
		managed_free(range);
}

struct ptx_memory kernel_memory(struct context *context)
{
	return (struct ptx_memory){
	    .window_base = window_base(),
	    .window_size = window_size(),
	    .alias_delta = context->device->alias_delta,
	    .host_access = host_access,
	    .window_access =
	        config()->traits.uncached_host && config()->host_bandwidth ? window_access : NULL,
	    .allocate = allocate,
	    .allocate_managed = allocate_managed,
	    .release = release,
	    .heap_allocate = kernel_heap_allocate,
	    .heap_free = kernel_heap_free,
	    .set_conditional = conditional_set,
	    .cookie = context,
	};
}
