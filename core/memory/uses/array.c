/* Bytes of arrays. Pure arithmetic. */
#include "core/memory/uses/array.h"

#include <stdbool.h>

/* Bytes of one channel of a format in whole bytes; 0: packed or of several planes. */
static unsigned int channel_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static size_t at_least_one(size_t n)
{
	return n ? n : 1;
}

static uint64_t level_bytes(const struct array_extent *e, unsigned int level)
{
	bool layers = e->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	size_t depth = layers ? e->depth : e->depth >> level;
	uint64_t bytes = channel_bytes(e->format) * (uint64_t)e->channels;

	if (__builtin_mul_overflow(bytes, at_least_one(e->width >> level), &bytes) ||
	    __builtin_mul_overflow(bytes, at_least_one(e->height >> level), &bytes) ||
	    __builtin_mul_overflow(bytes, at_least_one(depth), &bytes))
		return UINT64_MAX;
	return bytes;
}

/* As many as the driver makes of those that were asked for: down to a single element, and one. */
static unsigned int levels_made(const struct array_extent *e)
{
	unsigned int most = 1;

	for (size_t all = e->width | e->height | e->depth; all > 1; all >>= 1)
		most++;
	return e->levels < 1 ? 1 : (e->levels < most ? e->levels : most);
}

uint64_t array_bytes(const struct array_extent *e)
{
	unsigned int levels = levels_made(e);
	uint64_t sum = 0;

	/* No memory of its own: tiles are mapped later. */
	if (e->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int level = 0; level < levels; level++) {
		if (__builtin_add_overflow(sum, level_bytes(e, level), &sum))
			return UINT64_MAX;
	}
	return sum;
}

uint64_t array_most_beyond(uint64_t bytes)
{
	return bytes && bytes < (uint64_t)1 << 62 ? bytes + ((uint64_t)4 << 20) : (uint64_t)1 << 30;
}
