/* SPDX-License-Identifier: MIT */
/*
 * Copies. Every form becomes one job: rows of bytes between two sides. Addresses are checked when
 * the copy is asked for, and again when it runs, as memory may be unmapped in between.
 */
#include "tests/softgpu/memory.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/work.h"

/* Small copies from pageable memory are staged: the caller goes on while they wait their turn. */
#define STAGED_MOST (64ULL << 10)
/* The memory lock is let go between pieces, so that others can map and unmap meanwhile. */
#define PIECE (4ULL << 20)

/*
 * Returns whether the last byte is known without overflow; sets the number of bytes from first to
 * last.
 */
static bool extent_of(const struct copy_shape *shape, const struct copy_side *side, uint64_t *bytes)
{
	uint64_t rows, slices;
	if (__builtin_mul_overflow(shape->height - 1, side->pitch, &rows) ||
	    __builtin_mul_overflow(shape->depth - 1, side->slice, &slices) ||
	    __builtin_add_overflow(rows, slices, bytes) ||
	    __builtin_add_overflow(*bytes, shape->width, bytes))
		return false;
	return side->address + *bytes >= side->address;
}

/* Returns whether [address, address + size) is device memory that somebody may access. */
static bool is_device_memory(uint64_t address, uint64_t size)
{
	const struct range *range = range_find(address);
	if (!range || range->kind == RANGE_HEAP)
		return false;
	/* A memory node's memory comes and goes with launches: what runs will see. */
	if (range->kind == RANGE_GRAPH)
		return size <= range->size - (address - range->base);
	/* Mappings that follow one another are one piece of memory; allocations are not. */
	while (range->kind == RANGE_MAPPING && range->base + range->size < address + size) {
		uint64_t next = range->base + range->size;
		range = range_find(next);
		if (!range || range->kind != RANGE_MAPPING)
			return false;
	}
	if (address + size > range->base + range->size)
		return false;
	for (uint64_t at = address; at < address + size; at = (at | (GRANULARITY - 1)) + 1)
		if (!window_page(at)->readable)
			return false;
	return true;
}

CUresult classify(struct copy_side *side, uint64_t bytes)
{
	if (window_holds(side->address)) {
		side->kind = SIDE_DEVICE;
		return is_device_memory(side->address, bytes) ? CUDA_SUCCESS
		                                              : CUDA_ERROR_INVALID_VALUE;
	}
	const struct range *range = range_find(side->address);
	if (!range) {
		side->kind = SIDE_PAGEABLE;
		return side->address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	side->kind = range->kind == RANGE_MANAGED ? SIDE_MANAGED : SIDE_PINNED;
	return bytes <= range->size - (side->address - range->base) ? CUDA_SUCCESS
	                                                            : CUDA_ERROR_INVALID_VALUE;
}

/* Returns whether a side that was meant as host or device memory is that. */
static bool is_as_meant(const struct copy_side *side)
{
	switch (side->meant) {
	case MEANT_HOST:
		return side->kind != SIDE_DEVICE;
	case MEANT_DEVICE:
		return side->kind != SIDE_PAGEABLE;
	case MEANT_EITHER:
		return true;
	}
	return false;
}

void *side_bytes(uint64_t address, bool write, uint64_t *run)
{
	if (window_holds(address))
		return window_bytes(address, write, run);
	const struct range *range = range_find(address);
	if (range && range->graph_memory && !graph_memory_may_touch(range->graph_memory))
		return NULL;
	*run = UINT64_MAX;
	return (void *)address;
}

static bool copy_row(uint64_t to, uint64_t from, uint64_t size, struct host_link *link)
{
	while (size) {
		bool crosses = false;
		uint64_t to_run, from_run;
		uint64_t piece = host_link_piece(to, host_link_piece(from, size));
		piece = piece < PIECE ? piece : PIECE;
		pthread_rwlock_rdlock(&memory_lock);
		void *target = side_bytes(to, true, &to_run);
		const void *source = side_bytes(from, false, &from_run);
		if (target && source) {
			piece = to_run < piece ? to_run : piece;
			piece = from_run < piece ? from_run : piece;
			memmove(target, source, piece);
			crosses = config()->host_bandwidth && (is_on_host(to) || is_on_host(from));
		}
		pthread_rwlock_unlock(&memory_lock);
		if (!target || !source) {
			say("a copy of %#llx to %#llx touched memory that is not accessible",
			    (unsigned long long)from, (unsigned long long)to);
			return false;
		}
		host_link_use(link, crosses ? piece : 0);
		to += piece;
		from += piece;
		size -= piece;
	}
	return true;
}

struct copy {
	struct work work;
	struct copy_shape shape;
	struct copy_side to, from;
	bool by_cpu;  /* both sides are the host's, and this driver leaves that to the CPU */
	void *staged; /* a copy of the source, or NULL */
};

/* Ends the process, as an access of the CPU would, unless it has the memory at its addresses. */
static void check_cpu(uint64_t address, uint64_t size)
{
	for (uint64_t at = address; at < address + size; at = (at | (GRANULARITY - 1)) + 1) {
		bool readable = !config()->traits.cpu_copies ||
		                (window_holds(at) && window_page(at)->host_readable);
		if (!window_holds(at) || (is_on_host(at) && readable))
			continue;
		say("a copy between memory of the host was made by the CPU, which cannot access "
		    "%#llx",
		    (unsigned long long)at);
		raise(SIGSEGV);
	}
}

static CUresult run_copy(struct work *work, CUresult broken)
{
	(void)broken;
	const struct copy *copy = (const struct copy *)work;
	struct host_link link = {.began_ns = now_ns()};
	uint64_t bytes;
	if (copy->by_cpu && extent_of(&copy->shape, &copy->to, &bytes))
		check_cpu(copy->to.address, bytes);
	if (copy->by_cpu && extent_of(&copy->shape, &copy->from, &bytes))
		check_cpu(copy->from.address, bytes);
	for (uint64_t z = 0; z < copy->shape.depth; z++)
		for (uint64_t y = 0; y < copy->shape.height; y++)
			if (!copy_row(copy->to.address + z * copy->to.slice + y * copy->to.pitch,
			              copy->from.address + z * copy->from.slice +
			                  y * copy->from.pitch,
			              copy->shape.width, &link))
				return CUDA_ERROR_ILLEGAL_ADDRESS;
	return CUDA_SUCCESS;
}

static void release_copy(struct work *work)
{
	free(((struct copy *)work)->staged);
}

/* Takes a small, plain source along, so that the caller may change it at once. */
static void stage(struct copy *copy)
{
	if (copy->shape.height != 1 || copy->shape.depth != 1 || copy->shape.width > STAGED_MOST)
		return;
	copy->staged = malloc(copy->shape.width);
	if (!copy->staged)
		return;
	memcpy(copy->staged, (const void *)copy->from.address, copy->shape.width);
	copy->from.address = (uint64_t)copy->staged;
}

bool is_refused_as_mixed(uint64_t address, uint64_t size, enum copy_form form)
{
	const unsigned int *refused = config()->no_mixed;
	if (!window_holds(address) || !((refused[0] | refused[1]) & form))
		return false;
	bool on_host = is_on_host(address);
	for (uint64_t at = address; at < address + size; at = (at | (GRANULARITY - 1)) + 1) {
		if (is_on_host(at) != on_host && (refused[on_host] & form))
			return true;
		on_host = is_on_host(at);
	}
	return false;
}

static enum copy_form form_of(const struct copy_side *to, const struct copy_side *from,
                              const struct copy_shape *shape)
{
	if (shape->height > 1 || shape->depth > 1)
		return FORM_ROWS;
	if (to->kind == SIDE_DEVICE && from->kind == SIDE_DEVICE)
		return FORM_BETWEEN;
	return to->kind == SIDE_DEVICE ? FORM_TO_DEVICE : FORM_TO_HOST;
}

CUresult copy_check(struct copy_side *to, struct copy_side *from, const struct copy_shape *shape)
{
	uint64_t to_bytes, from_bytes;
	if (shape->width == 0 || shape->height == 0 || shape->depth == 0)
		return CUDA_SUCCESS;
	if (!extent_of(shape, to, &to_bytes) || !extent_of(shape, from, &from_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = classify(to, to_bytes);
	if (result == CUDA_SUCCESS)
		result = classify(from, from_bytes);
	if (result != CUDA_SUCCESS)
		return result;
	/* Elements of arrays are copied whole. */
	if (to->element && from->element && to->element != from->element)
		return CUDA_ERROR_INVALID_VALUE;
	enum copy_form form = form_of(to, from, shape);
	if (is_refused_as_mixed(to->address, to_bytes, form) ||
	    is_refused_as_mixed(from->address, from_bytes, form))
		return CUDA_ERROR_INVALID_VALUE;
	return is_as_meant(to) && is_as_meant(from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/*
 * Returns whether a side is memory of the host as the driver sees it: virtual memory may be, too.
 */
static bool is_of_host(const struct copy_side *side)
{
	return side->kind == SIDE_PAGEABLE || side->kind == SIDE_PINNED ||
	       (side->kind == SIDE_DEVICE && is_on_host(side->address));
}

/*
 * Returns whether the caller must wait for the copy; may stage its source instead. Source: "API
 * synchronization behavior" of the driver API: between memory of the host all forms wait.
 */
static bool must_wait(struct copy *copy, enum copy_timing timing)
{
	enum side_kind to = copy->to.kind, from = copy->from.kind;
	bool of_host = is_of_host(&copy->to) && is_of_host(&copy->from);
	switch (timing) {
	case COPY_WAIT:
		/* Between device memory the host does not wait even for the plain forms. */
		return of_host || to != SIDE_DEVICE || from != SIDE_DEVICE;
	case COPY_ASYNC:
		if (of_host)
			return true;
		if (to == SIDE_PAGEABLE)
			return true;
		if (from != SIDE_PAGEABLE)
			return false;
		break;
	case COPY_READ_NOW:
		if (from == SIDE_DEVICE)
			return true;
		break;
	case COPY_IN_ORDER:
		return of_host;
	}
	stage(copy);
	return !copy->staged;
}

bool is_cpu_copy(const struct copy_side *to, const struct copy_side *from)
{
	return (config()->traits.cpu_copies || config()->traits.host_nodes) && is_of_host(to) &&
	       is_of_host(from);
}

static struct copy *make(struct copy_side to, struct copy_side from, struct copy_shape shape)
{
	struct copy *copy = calloc(1, sizeof(*copy));
	if (!copy)
		return NULL;
	copy->work.run = run_copy;
	copy->work.release = release_copy;
	copy->shape = shape;
	copy->to = to;
	copy->from = from;
	return copy;
}

struct work *copy_work(struct copy_side to, struct copy_side from, struct copy_shape shape,
                       bool by_cpu)
{
	struct copy *copy = make(to, from, shape);
	if (copy)
		copy->by_cpu = by_cpu;
	return (struct work *)copy;
}

/* One side as a graph's memcpy node describes it. */
static void describe(const struct copy_side *side, const struct copy_shape *shape,
                     CUmemorytype *type, CUdeviceptr *device, void **host, size_t *pitch,
                     size_t *height)
{
	static const CUmemorytype types[] = {[MEANT_EITHER] = CU_MEMORYTYPE_UNIFIED,
	                                     [MEANT_HOST] = CU_MEMORYTYPE_HOST,
	                                     [MEANT_DEVICE] = CU_MEMORYTYPE_DEVICE};
	*type = types[side->meant];
	*device = side->meant == MEANT_HOST ? 0 : side->address;
	*host = side->meant == MEANT_DEVICE ? NULL : (void *)side->address;
	*pitch = side->pitch ? side->pitch : shape->width;
	*height = side->slice && side->pitch ? side->slice / side->pitch : shape->height;
}

static CUresult capture_copy(struct stream *stream, const struct copy_side *to,
                             const struct copy_side *from, const struct copy_shape *shape)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	CUDA_MEMCPY3D *what = &params.memcpy.copyParams;
	void *source;
	/* The node would name memory where the program named an array. */
	if (to->element || from->element)
		return CUDA_ERROR_NOT_SUPPORTED;
	describe(to, shape, &what->dstMemoryType, &what->dstDevice, &what->dstHost, &what->dstPitch,
	         &what->dstHeight);
	describe(from, shape, &what->srcMemoryType, &what->srcDevice, &source, &what->srcPitch,
	         &what->srcHeight);
	what->srcHost = source;
	what->WidthInBytes = shape->width;
	what->Height = shape->height;
	what->Depth = shape->depth;
	params.memcpy.copyCtx = (CUcontext)stream->context;
	return capture_add(stream, &params);
}

CUresult copy_submit(struct stream *stream, struct copy_side to, struct copy_side from,
                     struct copy_shape shape, enum copy_timing timing)
{
	CUresult result = CUDA_SUCCESS;
	/* The host waits, or the source is read now: no replay would do that again. */
	if (timing == COPY_WAIT || timing == COPY_READ_NOW)
		result = capture_check_queue(stream);
	if (result == CUDA_SUCCESS && timing == COPY_WAIT)
		result = capture_check_unsafe();
	if (result == CUDA_SUCCESS)
		result = copy_check(&to, &from, &shape);
	if (result != CUDA_SUCCESS || shape.width == 0 || shape.height == 0 || shape.depth == 0)
		return result;
	if (stream->capture)
		return capture_copy(stream, &to, &from, &shape);
	struct copy *copy = make(to, from, shape);
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	copy->by_cpu = is_cpu_copy(&copy->to, &copy->from);
	bool wait = must_wait(copy, timing);
	struct context *context = stream->context;
	struct copy_devices both = copy_devices(stream, &to, &from);
	result = copy_order_after(&copy->work, stream, both);
	if (result != CUDA_SUCCESS) {
		work_free(&copy->work);
		return result;
	}
	result = stream_submit(stream, &copy->work);
	if (result == CUDA_SUCCESS)
		result = copy_order_before(stream, both);
	if (result != CUDA_SUCCESS || !wait)
		return result;
	stream_wait_for(stream, stream->issued);
	return context->error;
}
