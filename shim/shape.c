/* SPDX-License-Identifier: MIT */
/* The shapes of copies. */
#include "shim/shape.h"

bool shape_is_regular(const struct async_copy *shape)
{
	const struct async_end *ends[] = {&shape->to, &shape->from};
	size_t layer;

	if (!shape->width || !shape->height || !shape->depth)
		return false;
	for (int i = 0; i < 2; i++) {
		if (shape->height > 1 && ends[i]->pitch < shape->width)
			return false;
		if (shape->depth > 1 &&
		    (__builtin_mul_overflow(ends[i]->pitch, shape->height, &layer) ||
		     ends[i]->slice < layer || !layer))
			return false;
	}
	return true;
}

#define HAS_ARRAY(copy)                                  \
	((copy)->srcMemoryType == CU_MEMORYTYPE_ARRAY || \
	 (copy)->dstMemoryType == CU_MEMORYTYPE_ARRAY)
/* An end's address, that many rows beyond its base. */
#define AT_ROW(copy, end, row)                            \
	(((copy)->end##MemoryType == CU_MEMORYTYPE_HOST   \
	      ? (CUdeviceptr)(uintptr_t)(copy)->end##Host \
	      : (copy)->end##Device) +                    \
	 (row) * (copy)->end##Pitch + (copy)->end##XInBytes)
#define END_2D(copy, end)                                                 \
	((struct async_end){.address = AT_ROW(copy, end, (copy)->end##Y), \
	                    .pitch = (copy)->end##Pitch})
#define END_3D(copy, end)                                                                        \
	((struct async_end){                                                                     \
	    .address = AT_ROW(copy, end, (copy)->end##Z * (copy)->end##Height + (copy)->end##Y), \
	    .pitch = (copy)->end##Pitch,                                                         \
	    .slice = (copy)->end##Pitch * (copy)->end##Height})
#define SHAPE_3D(copy)                                      \
	((struct async_copy){.to = END_3D(copy, dst),       \
	                     .from = END_3D(copy, src),     \
	                     .width = (copy)->WidthInBytes, \
	                     .height = (copy)->Height,      \
	                     .depth = (copy)->Depth})

bool shape_of_bytes(CUdeviceptr to, CUdeviceptr from, size_t size, struct async_copy *shape)
{
	*shape = (struct async_copy){.to = {.address = to},
	                             .from = {.address = from},
	                             .width = size,
	                             .height = 1,
	                             .depth = 1};
	return size;
}

bool shape_of_2d(const CUDA_MEMCPY2D *copy, struct async_copy *shape)
{
	if (!copy || HAS_ARRAY(copy))
		return false;
	*shape = (struct async_copy){.to = END_2D(copy, dst),
	                             .from = END_2D(copy, src),
	                             .width = copy->WidthInBytes,
	                             .height = copy->Height,
	                             .depth = 1};
	return shape_is_regular(shape);
}

bool shape_of_3d(const CUDA_MEMCPY3D *copy, struct async_copy *shape)
{
	if (!copy || HAS_ARRAY(copy))
		return false;
	*shape = SHAPE_3D(copy);
	return shape_is_regular(shape);
}

bool shape_of_peer(const CUDA_MEMCPY3D_PEER *copy, struct async_copy *shape)
{
	if (!copy || HAS_ARRAY(copy))
		return false;
	*shape = SHAPE_3D(copy);
	return shape_is_regular(shape);
}
