/* SPDX-License-Identifier: MIT */
/* Asynchronous copies; apart from the hooks, because they are rare. */
#include "shim/asynchronous.h"

#include "core/job/job.h"
#include "shim/shape.h"

static bool make(struct async_copy *shape, CUstream stream, CUresult *result)
{
	KEEP_ERRNO;

	shape->stream = stream;
	shape->is_in_order = false;
	return job_is_active() && async_copy(shape, result);
}

bool asynchronous_bytes(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream,
                        CUresult *result)
{
	struct async_copy shape;

	return shape_of_bytes(to, from, size, &shape) && make(&shape, stream, result);
}

bool asynchronous_2d(const CUDA_MEMCPY2D *copy, CUstream stream, CUresult *result)
{
	struct async_copy shape;

	return shape_of_2d(copy, &shape) && make(&shape, stream, result);
}

bool asynchronous_3d(const CUDA_MEMCPY3D *copy, CUstream stream, CUresult *result)
{
	struct async_copy shape;

	return shape_of_3d(copy, &shape) && make(&shape, stream, result);
}

bool asynchronous_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, CUresult *result)
{
	struct async_copy shape;

	return shape_of_peer(copy, &shape) && make(&shape, stream, result);
}
