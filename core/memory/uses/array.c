/* SPDX-License-Identifier: MIT */
/* Bytes of arrays. Pure arithmetic. */
#include "core/memory/uses/array.h"

#include <stdbool.h>

/* So many elements, wide and high, that are kept together, and their bytes; 0: it is not known. */
struct block {
	unsigned int width, height, bytes;
};

/*
 * By cuda.h. Planes and packed colours have as many bytes to a pixel as their sampling says, with
 * 10 bits in two bytes. For example, 4:2:0 has six samples to 2 by 2 pixels, and 4:2:2 four to 2 by
 * 1. Compressed formats have eight or sixteen bytes to 4 by 4 pixels.
 */
static struct block array_block_of(CUarray_format format, unsigned int channels)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return (struct block){1, 1, channels};
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return (struct block){1, 1, 2 * channels};
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return (struct block){1, 1, 4 * channels};
	case CU_AD_FORMAT_UNORM_INT8X1:
	case CU_AD_FORMAT_SNORM_INT8X1:
		return (struct block){1, 1, 1};
	case CU_AD_FORMAT_UNORM_INT8X2:
	case CU_AD_FORMAT_SNORM_INT8X2:
	case CU_AD_FORMAT_UNORM_INT16X1:
	case CU_AD_FORMAT_SNORM_INT16X1:
		return (struct block){1, 1, 2};
	case CU_AD_FORMAT_Y444_PLANAR8:
	case CU_AD_FORMAT_YUV444_8bit_SemiPlanar:
		return (struct block){1, 1, 3};
	case CU_AD_FORMAT_UNORM_INT8X4:
	case CU_AD_FORMAT_SNORM_INT8X4:
	case CU_AD_FORMAT_UNORM_INT16X2:
	case CU_AD_FORMAT_SNORM_INT16X2:
	case CU_AD_FORMAT_UNORM_INT_101010_2:
	case CU_AD_FORMAT_AYUV:
	case CU_AD_FORMAT_Y410:
		return (struct block){1, 1, 4};
	case CU_AD_FORMAT_Y444_PLANAR10:
	case CU_AD_FORMAT_YUV444_16bit_SemiPlanar:
		return (struct block){1, 1, 6};
	case CU_AD_FORMAT_UNORM_INT16X4:
	case CU_AD_FORMAT_SNORM_INT16X4:
	case CU_AD_FORMAT_Y416:
		return (struct block){1, 1, 8};
	case CU_AD_FORMAT_NV16:
	case CU_AD_FORMAT_YUY2:
		return (struct block){2, 1, 4};
	case CU_AD_FORMAT_P210:
	case CU_AD_FORMAT_P216:
	case CU_AD_FORMAT_Y210:
	case CU_AD_FORMAT_Y216:
		return (struct block){2, 1, 8};
	case CU_AD_FORMAT_NV12:
		return (struct block){2, 2, 6};
	case CU_AD_FORMAT_P010:
	case CU_AD_FORMAT_P016:
		return (struct block){2, 2, 12};
	case CU_AD_FORMAT_BC1_UNORM:
	case CU_AD_FORMAT_BC1_UNORM_SRGB:
	case CU_AD_FORMAT_BC4_UNORM:
	case CU_AD_FORMAT_BC4_SNORM:
		return (struct block){4, 4, 8};
	case CU_AD_FORMAT_BC2_UNORM:
	case CU_AD_FORMAT_BC2_UNORM_SRGB:
	case CU_AD_FORMAT_BC3_UNORM:
	case CU_AD_FORMAT_BC3_UNORM_SRGB:
	case CU_AD_FORMAT_BC5_UNORM:
	case CU_AD_FORMAT_BC5_SNORM:
	case CU_AD_FORMAT_BC6H_UF16:
	case CU_AD_FORMAT_BC6H_SF16:
	case CU_AD_FORMAT_BC7_UNORM:
	case CU_AD_FORMAT_BC7_UNORM_SRGB:
		return (struct block){4, 4, 16};
	default:
		return (struct block){1, 1, 0};
	}
}

/* Returns how many blocks there are along an extent at a level; of none there is one. */
static size_t blocks_along(size_t extent, unsigned int level, unsigned int block)
{
	extent >>= level;
	return extent / block + (extent % block || !extent);
}

/* How much of it: the bytes of its elements, or those that the layout may take with padding. */
enum extent_of { HELD, TAKEN };

/* Of a format that came later, to be taken: none has more to an element. */
enum { UNKNOWN_BYTES = 16, TILE_BYTES = 64, TILE_ROWS = 8, LEVEL_ALIGN = 512 };

static uint64_t array_rounded(uint64_t bytes, uint64_t unit)
{
	return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}

/* Tiles are blocks of a power of two, up to `most`, that grow with the extent. */
static uint64_t padded(uint64_t extent, uint64_t least, uint64_t most)
{
	while (least < extent && least < most)
		least *= 2;
	return array_rounded(extent, least);
}

static uint64_t level_bytes(const struct array_extent *e, unsigned int level, enum extent_of what)
{
	bool layers = e->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	size_t depth = layers ? e->depth : e->depth >> level;
	struct block block = array_block_of(e->format, e->channels);
	uint64_t bytes = block.bytes, rows = blocks_along(e->height, level, block.height);

	if (what == TAKEN && !bytes)
		bytes = UNKNOWN_BYTES;
	if (__builtin_mul_overflow(bytes, blocks_along(e->width, level, block.width), &bytes))
		return UINT64_MAX;
	if (what == TAKEN) {
		bytes = array_rounded(bytes, TILE_BYTES);
		rows = e->height ? padded(rows, TILE_ROWS, 256) : rows;
		depth = layers ? depth : padded(depth, 1, 32);
	}
	if (__builtin_mul_overflow(bytes, rows, &bytes) ||
	    __builtin_mul_overflow(bytes, depth ? depth : 1, &bytes))
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

static uint64_t sum_of_levels(const struct array_extent *e, enum extent_of what)
{
	unsigned int levels = levels_made(e);
	uint64_t sum = 0;

	/* No memory of its own: tiles are mapped later. */
	if (e->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int level = 0; level < levels; level++) {
		if (what == TAKEN)
			sum = array_rounded(sum, LEVEL_ALIGN);
		if (__builtin_add_overflow(sum, level_bytes(e, level, what), &sum))
			return UINT64_MAX;
	}
	return sum;
}

uint64_t array_bytes(const struct array_extent *e)
{
	return sum_of_levels(e, HELD);
}

uint64_t array_taken(const struct array_extent *e)
{
	return array_rounded(sum_of_levels(e, TAKEN), ARRAY_UNIT);
}
