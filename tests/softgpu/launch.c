/* SPDX-License-Identifier: MIT */
/*
 * Launches. A kernel runs on its stream's thread, one at a time per device and process, and holds
 * the device against other processes in slices.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/memory.h"
#include "tests/softgpu/occupancy.h"
#include "tests/softgpu/trace.h"
#include "tests/softgpu/work.h"

/* Warp instructions between two looks at the clock: well below a slice. */
#define POLL_INSTRUCTIONS 2048

struct launch {
	struct work work;
	struct context *context;
	const struct ptx_function *ptx;
	struct ptx_launch grid;
	struct ptx_fault fault;
	max_align_t parameters[]; /* the block that grid.parameters points to */
};

static int poll_slice(void *cookie)
{
	slice_poll(cookie);
	return 0;
}

/* The kernel's clock: it begins when the thread comes, which may be later than the device did. */
static uint64_t held_so_far(void *cookie)
{
	const struct slice *slice = cookie;

	return slice_held(slice) - slice->lag_ns;
}

/* A sleep makes up for that: one of 20 us is over 20 us after the device began the kernel. */
static void rest_in_slice(void *cookie, uint64_t until)
{
	struct slice *slice = cookie;
	uint64_t now = held_so_far(slice), left = until > now ? until - now : 0;
	uint64_t made_up = left < slice->lag_ns ? left : slice->lag_ns;

	slice->lag_ns -= made_up;
	slice_rest(slice, slice_held(slice) + left - made_up);
}

static CUresult result_of_run(enum ptx_status status)
{
	switch (status) {
	case PTX_OK:
		return CUDA_SUCCESS;
	case PTX_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_ILLEGAL_INSTRUCTION:
		return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	case PTX_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_NOT_SUPPORTED:
		return CUDA_ERROR_NOT_SUPPORTED;
	case PTX_NO_MEMORY:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

static void report(const struct launch *launch, CUresult result)
{
	const struct ptx_fault *fault = &launch->fault;
	const char *name = NULL;
	cuGetErrorName(result, &name);
	say("%s in kernel %s, block (%u,%u,%u), thread (%u,%u,%u), line %u: %s", name ? name : "?",
	    fault->function ? fault->function : "?", fault->block[0], fault->block[1],
	    fault->block[2], fault->thread[0], fault->thread[1], fault->thread[2], fault->line,
	    fault->message);
}

static CUresult run_launch(struct work *work, CUresult broken)
{
	(void)broken;
	struct launch *launch = (struct launch *)work;
	struct device *device = launch->context->device;
	struct slice slice;
	pthread_mutex_lock(&device->kernel_lock);
	slice_begin(&slice, device->machine_index, work->start_ns);
	launch->grid.poll = poll_slice;
	launch->grid.poll_cookie = &slice;
	launch->grid.poll_instructions = POLL_INSTRUCTIONS;
	launch->grid.clock = held_so_far;
	launch->grid.rest = rest_in_slice;
	host_traffic_begin(device);
	CUresult result = result_of_run(ptx_run(launch->ptx, &launch->grid, &launch->fault));
	uint64_t fetched = host_traffic_end(device), link_ns = host_link_ns(fetched);
	machine_count_fetched(device->machine_index, fetched);
	uint64_t kernel_ns = config()->kernel_time_ns;
	slice_rest(&slice, link_ns > kernel_ns ? link_ns : kernel_ns);
	work->end_ns =
	    slice_end(&slice, result == CUDA_SUCCESS && stream_has_next(work, run_launch));
	pthread_mutex_unlock(&device->kernel_lock);
	if (result != CUDA_SUCCESS)
		report(launch, result);
	return result;
}

/* The parameter block from an array of pointers, one per parameter. */
static CUresult gather(void *block, const struct ptx_function_info *info, void *const *pointers)
{
	for (uint32_t i = 0; i < info->parameter_count; i++) {
		if (!pointers[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy((char *)block + info->parameters[i].offset, pointers[i],
		       info->parameters[i].size);
	}
	return CUDA_SUCCESS;
}

/* The parameter block from the list of `extra` options. */
static CUresult copy_extra(void *block, const struct ptx_function_info *info, void *const *extra)
{
	const void *buffer = NULL;
	const size_t *size = NULL;
	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (info->parameter_bytes == 0)
		return CUDA_SUCCESS;
	if (!buffer || !size || *size < info->parameter_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(block, buffer, info->parameter_bytes);
	return CUDA_SUCCESS;
}

CUresult kernel_gather(void *block, const struct ptx_function_info *info, void *const *pointers,
                       void *const *extra)
{
	if ((pointers && extra) || (!pointers && !extra && info->parameter_count))
		return CUDA_ERROR_INVALID_VALUE;
	if (pointers)
		return gather(block, info, pointers);
	return extra ? copy_extra(block, info, extra) : CUDA_SUCCESS;
}

CUresult kernel_check(const struct function *function, const struct ptx_launch *shape)
{
	static const unsigned int most_grid[] = {INT32_MAX, 65535, 65535};
	static const unsigned int most_block[] = {1024, 1024, 64};
	uint64_t blocks = 1, threads = 1;
	for (int i = 0; i < 3; i++) {
		if (shape->grid[i] == 0 || shape->grid[i] > most_grid[i] || shape->block[i] == 0 ||
		    shape->block[i] > most_block[i])
			return CUDA_ERROR_INVALID_VALUE;
		threads *= shape->block[i];
		blocks *= shape->grid[i];
	}
	if (threads > function->info->max_threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (shape->dynamic_shared > (uint32_t)function->dynamic_shared_most)
		return CUDA_ERROR_INVALID_VALUE;
	if (shape->cooperative && !device_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (shape->cooperative) {
		uint64_t room = (uint64_t)MULTIPROCESSORS *
		                (uint64_t)blocks_per_multiprocessor(function, (unsigned int)threads,
		                                                    shape->dynamic_shared);
		if (blocks > room)
			return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	}
	return CUDA_SUCCESS;
}

/* Reads the attributes that mean something here, and refuses those that ask for more. */
static CUresult read_attributes(const CUlaunchConfig *shape, bool *cooperative)
{
	if (shape->numAttrs && !shape->attrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < shape->numAttrs; i++) {
		const CUlaunchAttribute *attribute = &shape->attrs[i];
		switch ((int)attribute->id) {
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
			*cooperative = attribute->value.cooperative != 0;
			break;
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
			if (attribute->value.clusterDim.x * attribute->value.clusterDim.y *
			        attribute->value.clusterDim.z !=
			    1)
				return CUDA_ERROR_INVALID_CLUSTER_SIZE;
			break;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			return CUDA_ERROR_NOT_SUPPORTED;
		default:
			break; /* hints about caches and order */
		}
	}
	return CUDA_SUCCESS;
}

static struct launch *make(struct context *context, const struct function *function,
                           const struct ptx_launch *shape)
{
	struct launch *launch = calloc(1, sizeof(*launch) + function->info->parameter_bytes);
	if (!launch)
		return NULL;
	launch->work.run = run_launch;
	launch->context = context;
	launch->ptx = function->ptx;
	launch->grid = *shape;
	launch->grid.parameters = launch->parameters;
	return launch;
}

struct work *kernel_work(struct context *context, const struct function *function,
                         const struct ptx_launch *shape, const void *block)
{
	struct launch *launch = make(context, function, shape);
	if (!launch)
		return NULL;
	memcpy(launch->parameters, block, function->info->parameter_bytes);
	return &launch->work;
}

static CUresult submit(struct stream *stream, const struct function *function,
                       const struct ptx_launch *shape, void *const *pointers, void *const *extra)
{
	struct launch *launch = make(stream->context, function, shape);
	if (!launch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = kernel_gather(launch->parameters, function->info, pointers, extra);
	if (result != CUDA_SUCCESS) {
		free(launch);
		return result;
	}
	return stream_submit(stream, &launch->work);
}

static CUresult capture_launch(struct stream *stream, CUfunction function,
                               const CUlaunchConfig *shape, bool cooperative, void **pointers,
                               void **extra)
{
	CUgraphNodeParams params = {
	    .type = CU_GRAPH_NODE_TYPE_KERNEL,
	    .kernel =
	        {
	            .func = function,
	            .gridDimX = shape->gridDimX,
	            .gridDimY = shape->gridDimY,
	            .gridDimZ = shape->gridDimZ,
	            .blockDimX = shape->blockDimX,
	            .blockDimY = shape->blockDimY,
	            .blockDimZ = shape->blockDimZ,
	            .sharedMemBytes = shape->sharedMemBytes,
	            .kernelParams = pointers,
	            .extra = extra,
	        },
	};
	return capture_add_kernel(stream, &params, shape, cooperative);
}

static CUresult launch_kernel(const char *call, const CUlaunchConfig *shape, CUstream handle,
                              CUfunction function_handle, bool cooperative, void **pointers,
                              void **extra)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!shape)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct stream *stream = stream_find(context, handle);
	/* A stream of another context is as wrong as none. */
	if (!stream || stream->context != context)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	struct function *function;
	result = function_find(function_handle, context, &function);
	if (result == CUDA_SUCCESS)
		result = read_attributes(shape, &cooperative);
	if (result != CUDA_SUCCESS)
		return leave(result);
	struct ptx_launch grid = {
	    .grid = {shape->gridDimX, shape->gridDimY, shape->gridDimZ},
	    .block = {shape->blockDimX, shape->blockDimY, shape->blockDimZ},
	    .dynamic_shared = shape->sharedMemBytes,
	    .cooperative = cooperative,
	};
	result = kernel_check(function, &grid);
	if (result != CUDA_SUCCESS)
		return leave(result);
	if (stream->capture)
		return leave(capture_launch(stream, (CUfunction)function, shape, cooperative,
		                            pointers, extra));
	trace_launch(function, function->info->name, grid.grid, grid.block);
	return leave(submit(stream, function, &grid, pointers, extra));
}

static CUresult cuLaunchKernelEx_on(const char *call, CUstream stream, const CUlaunchConfig *config,
                                    CUfunction function, void **parameters, void **extra)
{
	CUstream own = config ? config->hStream : NULL;
	return launch_kernel(call, config, own ? own : stream, function, false, parameters, extra);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra)
{
	return cuLaunchKernelEx_on(__func__, CU_STREAM_LEGACY, config, function, parameters, extra);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                      void **parameters, void **extra);
EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                      void **parameters, void **extra)
{
	return cuLaunchKernelEx_on(__func__, CU_STREAM_PER_THREAD, config, function, parameters,
	                           extra);
}

static CUresult cuLaunchKernel_on(const char *call, CUfunction function, unsigned int grid_x,
                                  unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                  unsigned int block_y, unsigned int block_z, unsigned int shared,
                                  CUstream stream, void **parameters, void **extra)
{
	CUlaunchConfig shape = {
	    .gridDimX = grid_x,
	    .gridDimY = grid_y,
	    .gridDimZ = grid_z,
	    .blockDimX = block_x,
	    .blockDimY = block_y,
	    .blockDimZ = block_z,
	    .sharedMemBytes = shared,
	};
	return launch_kernel(call, &shape, stream, function, false, parameters, extra);
}
EXPORT_ON_STREAM(cuLaunchKernel,
                 (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                  unsigned int block_z, unsigned int shared, CUstream stream, void **parameters,
                  void **extra),
                 function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                 parameters, extra)

static CUresult cuLaunchCooperativeKernel_on(const char *call, CUfunction function,
                                             unsigned int grid_x, unsigned int grid_y,
                                             unsigned int grid_z, unsigned int block_x,
                                             unsigned int block_y, unsigned int block_z,
                                             unsigned int shared, CUstream stream,
                                             void **parameters)
{
	CUlaunchConfig shape = {
	    .gridDimX = grid_x,
	    .gridDimY = grid_y,
	    .gridDimZ = grid_z,
	    .blockDimX = block_x,
	    .blockDimY = block_y,
	    .blockDimZ = block_z,
	    .sharedMemBytes = shared,
	};
	return launch_kernel(call, &shape, stream, function, true, parameters, NULL);
}
EXPORT_ON_STREAM(cuLaunchCooperativeKernel,
                 (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                  unsigned int block_z, unsigned int shared, CUstream stream, void **parameters),
                 function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                 parameters)
