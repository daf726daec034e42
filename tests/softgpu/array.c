/* SPDX-License-Identifier: MIT */
/*
 * Arrays and mipmapped arrays. The layout of bytes in an array is the driver's alone. Here rows are
 * padded to 64 bytes and counted in eights, as hardware's tiles. Levels begin at 512 bytes. The
 * whole is device memory like any other, so that small arrays share blocks of 2 MiB and larger ones
 * are made of them.
 *
 * An array is a mipmapped array of one level that has no handle of its own.
 *
 * Sources: cuda.h on cuArray3DCreate and cuMipmappedArrayCreate, for refusals.
 */
#include "tests/softgpu/array.h"

#include <stdlib.h>

#define TILE_WIDTH  64ULL
#define TILE_ROWS   8ULL
#define LEVEL_ALIGN 512ULL
#define MOST_LEVELS 32U

struct level {
	struct handle handle; /* what CUarray is */
	struct arrays *owner;
	CUDA_ARRAY3D_DESCRIPTOR what;
	uint64_t offset, pitch, slice, element;
	uint64_t columns, rows; /* of what is kept together; rows 0: it has none */
};

struct arrays {
	struct handle handle; /* what CUmipmappedArray is */
	bool is_mipmapped;
	struct range *range;
	unsigned int count;
	struct level levels[];
};

#define KNOWN_FLAGS                                                                \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | \
	 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |                \
	 CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* The attributes that bound width, height and depth; 0: it has no such extent. */
struct bounds {
	CUdevice_attribute width, height, depth;
};

#define MOST(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name

enum array_kind { LINE, PLANE, SOLID, LINES, PLANES, CUBE, CUBES };

static const struct {
	struct bounds always, surface;
} bounds[] = {
    [LINE] = {{MOST(TEXTURE1D_WIDTH), 0, 0}, {MOST(SURFACE1D_WIDTH), 0, 0}},
    [PLANE] = {{MOST(TEXTURE2D_WIDTH), MOST(TEXTURE2D_HEIGHT), 0},
               {MOST(SURFACE2D_WIDTH), MOST(SURFACE2D_HEIGHT), 0}},
    [SOLID] = {{MOST(TEXTURE3D_WIDTH), MOST(TEXTURE3D_HEIGHT), MOST(TEXTURE3D_DEPTH)},
               {MOST(SURFACE3D_WIDTH), MOST(SURFACE3D_HEIGHT), MOST(SURFACE3D_DEPTH)}},
    [LINES] = {{MOST(TEXTURE1D_LAYERED_WIDTH), 0, MOST(TEXTURE1D_LAYERED_LAYERS)},
               {MOST(SURFACE1D_LAYERED_WIDTH), 0, MOST(SURFACE1D_LAYERED_LAYERS)}},
    [PLANES] = {{MOST(TEXTURE2D_LAYERED_WIDTH), MOST(TEXTURE2D_LAYERED_HEIGHT),
                 MOST(TEXTURE2D_LAYERED_LAYERS)},
                {MOST(SURFACE2D_LAYERED_WIDTH), MOST(SURFACE2D_LAYERED_HEIGHT),
                 MOST(SURFACE2D_LAYERED_LAYERS)}},
    [CUBE] = {{MOST(TEXTURECUBEMAP_WIDTH), MOST(TEXTURECUBEMAP_WIDTH), 0},
              {MOST(SURFACECUBEMAP_WIDTH), MOST(SURFACECUBEMAP_WIDTH), 0}},
    [CUBES] = {{MOST(TEXTURECUBEMAP_LAYERED_WIDTH), MOST(TEXTURECUBEMAP_LAYERED_WIDTH),
                MOST(TEXTURECUBEMAP_LAYERED_LAYERS)},
               {MOST(SURFACECUBEMAP_LAYERED_WIDTH), MOST(SURFACECUBEMAP_LAYERED_WIDTH),
                MOST(SURFACECUBEMAP_LAYERED_LAYERS)}},
};
static const struct bounds line_of_levels = {MOST(TEXTURE1D_MIPMAPPED_WIDTH), 0, 0};
static const struct bounds plane_of_levels = {MOST(TEXTURE2D_MIPMAPPED_WIDTH),
                                              MOST(TEXTURE2D_MIPMAPPED_HEIGHT), 0};
static const struct bounds gathered = {MOST(TEXTURE2D_GATHER_WIDTH), MOST(TEXTURE2D_GATHER_HEIGHT),
                                       0};
static const struct bounds other_solid = {MOST(TEXTURE3D_WIDTH_ALTERNATE),
                                          MOST(TEXTURE3D_HEIGHT_ALTERNATE),
                                          MOST(TEXTURE3D_DEPTH_ALTERNATE)};

static bool is_within(size_t extent, CUdevice_attribute bound)
{
	return !bound || extent <= (size_t)device_attribute(bound);
}

static bool fits(const CUDA_ARRAY3D_DESCRIPTOR *what, const struct bounds *most)
{
	return is_within(what->Width, most->width) && is_within(what->Height, most->height) &&
	       is_within(what->Depth, most->depth);
}

/* A block is so many elements wide and high, of so many channels; bytes 0: unknown. */
struct block {
	unsigned int width, height, channels, bytes;
};

/*
 * Formats of several planes and packed or compressed ones have a number of channels of their own
 * (cuda.h, on CUarray_format; channel_descriptor.h).
 */
static struct block block_of(const CUDA_ARRAY3D_DESCRIPTOR *what)
{
	unsigned int channels = what->NumChannels;
	switch ((int)what->Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return (struct block){1, 1, channels, channels};
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return (struct block){1, 1, channels, 2 * channels};
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return (struct block){1, 1, channels, 4 * channels};
	case CU_AD_FORMAT_NV12:
		return (struct block){2, 2, 3, 6};
	case CU_AD_FORMAT_YUY2:
		return (struct block){2, 1, 2, 4};
	case CU_AD_FORMAT_AYUV:
		return (struct block){1, 1, 4, 4};
	case CU_AD_FORMAT_UNORM_INT16X4:
		return (struct block){1, 1, 4, 8};
	case CU_AD_FORMAT_BC1_UNORM:
		return (struct block){4, 4, 4, 8};
	case CU_AD_FORMAT_BC6H_UF16:
		return (struct block){4, 4, 3, 16};
	case CU_AD_FORMAT_BC7_UNORM:
		return (struct block){4, 4, 4, 16};
	default:
		return (struct block){1, 1, 0, 0};
	}
}

static bool has_channels(const CUDA_ARRAY3D_DESCRIPTOR *what)
{
	struct block block = block_of(what);
	bool is_of_planes = what->NumChannels == 3 && block.width > 1;
	return block.bytes && what->NumChannels == block.channels &&
	       (is_of_planes || what->NumChannels == 1 || what->NumChannels == 2 ||
	        what->NumChannels == 4);
}

static bool has_layers(const CUDA_ARRAY3D_DESCRIPTOR *what)
{
	return what->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

/* Returns whether the extents go with the flags, and which kind of array they make. */
static bool find_kind(const CUDA_ARRAY3D_DESCRIPTOR *what, enum array_kind *kind)
{
	bool layered = what->Flags & CUDA_ARRAY3D_LAYERED;
	if (what->Width == 0)
		return false;
	if (what->Flags & CUDA_ARRAY3D_CUBEMAP) {
		*kind = layered ? CUBES : CUBE;
		return what->Width == what->Height &&
		       (layered ? what->Depth && what->Depth % 6 == 0 : what->Depth == 6);
	}
	if (layered) {
		*kind = what->Height ? PLANES : LINES;
		return what->Depth;
	}
	*kind = what->Depth ? SOLID : what->Height ? PLANE : LINE;
	return what->Height || !what->Depth;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *what, bool is_mipmapped)
{
	enum array_kind kind;
	if ((what->Flags & ~(unsigned int)KNOWN_FLAGS) || !has_channels(what) ||
	    !find_kind(what, &kind))
		return CUDA_ERROR_INVALID_VALUE;
	const struct bounds *always = &bounds[kind].always;
	if (is_mipmapped && kind == LINE)
		always = &line_of_levels;
	if (is_mipmapped && kind == PLANE)
		always = &plane_of_levels;
	bool gather = what->Flags & CUDA_ARRAY3D_TEXTURE_GATHER;
	bool surface = what->Flags & CUDA_ARRAY3D_SURFACE_LDST;
	if ((!fits(what, always) && !(kind == SOLID && fits(what, &other_solid))) ||
	    (gather && (kind != PLANE || !fits(what, &gathered))) ||
	    (surface && !fits(what, &bounds[kind].surface)))
		return CUDA_ERROR_INVALID_VALUE;
	/* Without memory of their own: cuMemMapArrayAsync is not supported, as attributes say. */
	return what->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)
	           ? CUDA_ERROR_NOT_SUPPORTED
	           : CUDA_SUCCESS;
}

static unsigned int clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR *what, unsigned int wanted)
{
	unsigned int most = 1;
	for (size_t all = what->Width | what->Height | what->Depth; all > 1; all >>= 1)
		most++;
	most = most < MOST_LEVELS ? most : MOST_LEVELS;
	return wanted < 1 ? 1 : (wanted < most ? wanted : most);
}

/* Each level has half the extents, rounded down, of the one before; what is 0 stays 0. */
static size_t extent_at(size_t extent, unsigned int index)
{
	return extent && !(extent >> index) ? 1 : extent >> index;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* Lays a level out behind `*size` bytes of others; false: nobody has so much memory. */
static bool lay_out(struct level *level, const CUDA_ARRAY3D_DESCRIPTOR *whole, unsigned int index,
                    uint64_t *size)
{
	struct block block = block_of(whole);
	uint64_t rows, bytes;
	level->what = *whole;
	level->what.Width = extent_at(whole->Width, index);
	level->what.Height = extent_at(whole->Height, index);
	if (!has_layers(whole))
		level->what.Depth = extent_at(whole->Depth, index);
	level->offset = round_up(*size, LEVEL_ALIGN);
	level->element = block.bytes;
	level->columns = round_up(level->what.Width, block.width) / block.width;
	level->rows = round_up(level->what.Height, block.height) / block.height;
	level->pitch = round_up(level->columns * level->element, TILE_WIDTH);
	rows = level->rows ? round_up(level->rows, TILE_ROWS) : 1;
	return !__builtin_mul_overflow(level->pitch, rows, &level->slice) &&
	       !__builtin_mul_overflow(level->slice, level->what.Depth ? level->what.Depth : 1,
	                               &bytes) &&
	       !__builtin_add_overflow(level->offset, bytes, size) && *size <= window_size();
}

static void remove_handles(struct arrays *arrays, unsigned int levels)
{
	for (unsigned int i = 0; i < levels; i++)
		handle_remove(&arrays->levels[i].handle);
	if (arrays->is_mipmapped)
		handle_remove(&arrays->handle);
}

static bool add_handles(struct arrays *arrays)
{
	if (arrays->is_mipmapped && !handle_add(&arrays->handle, HANDLE_MIPMAPPED_ARRAY))
		return false;
	for (unsigned int i = 0; i < arrays->count; i++) {
		if (handle_add(&arrays->levels[i].handle, HANDLE_ARRAY))
			continue;
		remove_handles(arrays, i);
		return false;
	}
	return true;
}

static CUresult make(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *what,
                     bool is_mipmapped, unsigned int levels, struct arrays **out)
{
	CUresult result = check(what, is_mipmapped);
	uint64_t size = 0;
	if (result != CUDA_SUCCESS)
		return result;
	levels = clamp_levels(what, levels);
	struct arrays *arrays = calloc(1, sizeof(*arrays) + levels * sizeof(struct level));
	if (!arrays)
		return CUDA_ERROR_OUT_OF_MEMORY;
	arrays->is_mipmapped = is_mipmapped;
	arrays->count = levels;
	bool has_room = true;
	for (unsigned int i = 0; i < levels && has_room; i++) {
		arrays->levels[i].owner = arrays;
		has_room = lay_out(&arrays->levels[i], what, i, &size);
	}
	result = has_room ? device_allocate(context, size, RANGE_ARRAY, &arrays->range)
	                  : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS && !add_handles(arrays)) {
		device_free(arrays->range);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result != CUDA_SUCCESS) {
		free(arrays);
		return result;
	}
	arrays->range->arrays = arrays;
	*out = arrays;
	return CUDA_SUCCESS;
}

void array_range_free(struct range *range)
{
	struct arrays *arrays = range->arrays;
	remove_handles(arrays, arrays->count);
	device_free(range);
	handle_free(arrays);
}

static CUresult create(const char *call, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *what)
{
	struct context *context;
	struct arrays *arrays;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result = out && what ? make(context, what, false, 1, &arrays) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*out = (CUarray)&arrays->levels[0];
	return leave(result);
}

EXPORT CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *what)
{
	return create(__func__, out, what);
}

EXPORT CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *what)
{
	const CUDA_ARRAY3D_DESCRIPTOR whole = {.Width = what ? what->Width : 0,
	                                       .Height = what ? what->Height : 0,
	                                       .Format = what ? what->Format : 0,
	                                       .NumChannels = what ? what->NumChannels : 0};
	return create(__func__, out, what ? &whole : NULL);
}

EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *what,
                                       unsigned int levels)
{
	struct context *context;
	struct arrays *arrays;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result =
	    out && what ? make(context, what, true, levels, &arrays) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*out = (CUmipmappedArray)arrays;
	return leave(result);
}

/* The arrays that this handle may destroy; a level goes with the others only. */
static struct arrays *find_whole(const void *handle, enum handle_kind kind)
{
	if (kind == HANDLE_MIPMAPPED_ARRAY)
		return handle_find(handle, kind);
	const struct level *level = handle_find(handle, kind);
	return level && !level->owner->is_mipmapped ? level->owner : NULL;
}

/* Waits for the context's work first, as freeing memory does. */
static CUresult destroy(const char *call, const void *handle, enum handle_kind kind)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct arrays *arrays = find_whole(handle, kind);
	if (arrays) {
		context_drain(arrays->range->context);
		arrays = find_whole(handle, kind); /* another thread may have been faster */
	}
	if (!arrays)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	array_range_free(arrays->range);
	return leave(context->error);
}

EXPORT CUresult cuArrayDestroy(CUarray handle)
{
	return destroy(__func__, handle, HANDLE_ARRAY);
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
	return destroy(__func__, handle, HANDLE_MIPMAPPED_ARRAY);
}

EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned int index)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct arrays *arrays = handle_find(handle, HANDLE_MIPMAPPED_ARRAY);
	if (!arrays)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!out || index >= arrays->count)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUarray)&arrays->levels[index];
	return leave(CUDA_SUCCESS);
}

static CUresult describe(const char *call, CUarray handle, bool output,
                         CUDA_ARRAY3D_DESCRIPTOR *what)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	const struct level *level = handle_find(handle, HANDLE_ARRAY);
	if (!level || !output)
		return leave(level ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
	*what = level->what;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle)
{
	CUDA_ARRAY3D_DESCRIPTOR what;
	CUresult result = describe(__func__, handle, out, &what);
	if (result == CUDA_SUCCESS)
		*out = what;
	return result;
}

EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray handle)
{
	CUDA_ARRAY3D_DESCRIPTOR what;
	CUresult result = describe(__func__, handle, out, &what);
	if (result == CUDA_SUCCESS)
		*out = (CUDA_ARRAY_DESCRIPTOR){.Width = what.Width,
		                               .Height = what.Height,
		                               .Format = what.Format,
		                               .NumChannels = what.NumChannels};
	return result;
}

/* They are known of arrays whose memory is mapped later, and there are none such. */
static CUresult ask_requirements(const char *call, const void *out, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(call, out, ordinal, &device);
	return result == CUDA_SUCCESS ? leave(CUDA_ERROR_INVALID_VALUE) : result;
}

EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray handle,
                                             CUdevice ordinal)
{
	(void)handle;
	return ask_requirements(__func__, out, ordinal);
}

EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                                                      CUmipmappedArray handle, CUdevice ordinal)
{
	(void)handle;
	return ask_requirements(__func__, out, ordinal);
}

bool array_is_row(CUarray handle)
{
	const struct level *level = handle_find(handle, HANDLE_ARRAY);
	return level && !level->what.Height && !level->what.Depth;
}

/* Returns whether [first, first + count) is within `all`, of which there is one at least. */
static bool is_inside(uint64_t first, uint64_t count, uint64_t all)
{
	all = all ? all : 1;
	return first <= all && count <= all - first;
}

CUresult array_side(CUarray handle, uint64_t x, uint64_t y, uint64_t z,
                    const struct copy_shape *shape, struct copy_side *side)
{
	const struct level *level = handle_find(handle, HANDLE_ARRAY);
	if (!level)
		return CUDA_ERROR_INVALID_HANDLE;
	if (x % level->element || shape->width % level->element ||
	    !is_inside(x, shape->width, level->columns * level->element) ||
	    !is_inside(y, shape->height, level->rows) ||
	    !is_inside(z, shape->depth, level->what.Depth))
		return CUDA_ERROR_INVALID_VALUE;
	*side = (struct copy_side){.address = level->owner->range->base + level->offset +
	                                      z * level->slice + y * level->pitch + x,
	                           .pitch = level->pitch,
	                           .slice = level->slice,
	                           .element = level->element,
	                           .meant = MEANT_DEVICE};
	return CUDA_SUCCESS;
}
