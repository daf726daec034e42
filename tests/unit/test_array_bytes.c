/* SPDX-License-Identifier: MIT */
/* Bytes of arrays by their formats, as cuda.h describes them. */
#include <check.h>

#include "core/memory/uses/array.h"
#include "tests/unit/suite.h"

static uint64_t bytes(CUarray_format format, unsigned int channels, size_t width, size_t height)
{
	return array_bytes(&(struct array_extent){
	    .width = width, .height = height, .channels = channels, .levels = 1, .format = format});
}

/* Each of these formats is known before an array of 64 by 64 pixels is made. */
START_TEST(each_format_is_known)
{
	static const struct {
		int first, last;
		unsigned int bits; /* to a pixel */
	} formats[] = {
	    {CU_AD_FORMAT_UNORM_INT8X1, CU_AD_FORMAT_UNORM_INT8X1, 8},
	    {CU_AD_FORMAT_UNORM_INT8X2, CU_AD_FORMAT_UNORM_INT8X2, 16},
	    {CU_AD_FORMAT_UNORM_INT8X4, CU_AD_FORMAT_UNORM_INT8X4, 32},
	    {CU_AD_FORMAT_UNORM_INT16X1, CU_AD_FORMAT_UNORM_INT16X1, 16},
	    {CU_AD_FORMAT_UNORM_INT16X2, CU_AD_FORMAT_UNORM_INT16X2, 32},
	    {CU_AD_FORMAT_UNORM_INT16X4, CU_AD_FORMAT_UNORM_INT16X4, 64},
	    {CU_AD_FORMAT_SNORM_INT8X1, CU_AD_FORMAT_SNORM_INT8X1, 8},
	    {CU_AD_FORMAT_SNORM_INT8X4, CU_AD_FORMAT_SNORM_INT8X4, 32},
	    {CU_AD_FORMAT_SNORM_INT16X4, CU_AD_FORMAT_SNORM_INT16X4, 64},
	    {CU_AD_FORMAT_UNORM_INT_101010_2, CU_AD_FORMAT_UNORM_INT_101010_2, 32},
	    {CU_AD_FORMAT_BC1_UNORM, CU_AD_FORMAT_BC1_UNORM_SRGB, 4},
	    {CU_AD_FORMAT_BC2_UNORM, CU_AD_FORMAT_BC3_UNORM_SRGB, 8},
	    {CU_AD_FORMAT_BC4_UNORM, CU_AD_FORMAT_BC4_SNORM, 4},
	    {CU_AD_FORMAT_BC5_UNORM, CU_AD_FORMAT_BC7_UNORM_SRGB, 8},
	    {CU_AD_FORMAT_NV12, CU_AD_FORMAT_NV12, 12},
	    {CU_AD_FORMAT_P010, CU_AD_FORMAT_P010, 24},
	    {CU_AD_FORMAT_P016, CU_AD_FORMAT_P016, 24},
	    {CU_AD_FORMAT_NV16, CU_AD_FORMAT_NV16, 16},
	    {CU_AD_FORMAT_P210, CU_AD_FORMAT_P216, 32},
	    {CU_AD_FORMAT_YUY2, CU_AD_FORMAT_YUY2, 16},
	    {CU_AD_FORMAT_Y210, CU_AD_FORMAT_Y216, 32},
	    {CU_AD_FORMAT_AYUV, CU_AD_FORMAT_Y410, 32},
	    {CU_AD_FORMAT_Y416, CU_AD_FORMAT_Y416, 64},
	    {CU_AD_FORMAT_Y444_PLANAR8, CU_AD_FORMAT_Y444_PLANAR8, 24},
	    {CU_AD_FORMAT_Y444_PLANAR10, CU_AD_FORMAT_Y444_PLANAR10, 48},
	    {CU_AD_FORMAT_YUV444_8bit_SemiPlanar, CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 24},
	    {CU_AD_FORMAT_YUV444_16bit_SemiPlanar, CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 48},
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		for (int format = formats[i].first; format <= formats[i].last; format++)
			ck_assert_uint_eq(bytes((CUarray_format)format, 3, 64, 64),
			                  64 * 64 / 8 * formats[i].bits);
	ck_assert_uint_eq(bytes(CU_AD_FORMAT_HALF, 4, 64, 64), 64 * 64 * 8);
	ck_assert_uint_eq(bytes((CUarray_format)0x7f, 4, 64, 64), 0);
}
END_TEST

/* A block is there as a whole. */
START_TEST(parts_of_blocks_count_as_blocks)
{
	ck_assert_uint_eq(bytes(CU_AD_FORMAT_BC7_UNORM, 4, 5, 4), 32);
	ck_assert_uint_eq(bytes(CU_AD_FORMAT_BC1_UNORM, 4, 1, 1), 8);
	ck_assert_uint_eq(bytes(CU_AD_FORMAT_NV12, 3, 3, 3), 24);
	ck_assert_uint_eq(bytes(CU_AD_FORMAT_YUY2, 2, 3, 0), 8);
	ck_assert_uint_eq(bytes(CU_AD_FORMAT_NV12, 3, SIZE_MAX, SIZE_MAX), UINT64_MAX);
	/* 8 by 8, 4 by 4, 2 by 2 and 1 by 1, of which each has a block. */
	ck_assert_uint_eq(
	    array_bytes(&(struct array_extent){
	        .width = 8, .height = 8, .levels = 9, .format = CU_AD_FORMAT_BC7_UNORM}),
	    7 * 16);
}
END_TEST

static uint64_t taken(CUarray_format format, size_t width, size_t height, size_t depth)
{
	return array_taken(&(struct array_extent){.width = width,
	                                          .height = height,
	                                          .depth = depth,
	                                          .channels = 1,
	                                          .levels = 1,
	                                          .format = format});
}

/* The first charge covers the padding of the layout, in the blocks that the driver takes. */
START_TEST(what_may_be_taken_is_whole_blocks)
{
	const uint64_t mib = 1 << 20;

	ck_assert_uint_eq(taken(CU_AD_FORMAT_FLOAT, 16, 16, 0), 2 * mib);
	ck_assert_uint_eq(taken(CU_AD_FORMAT_FLOAT, 1024, 6144, 0), 24 * mib);
	ck_assert_uint_eq(taken(CU_AD_FORMAT_FLOAT, 1024, 6145, 0), 26 * mib);
	ck_assert_uint_eq(taken(CU_AD_FORMAT_UNSIGNED_INT8, 1, 65536, 0), 4 * mib);
	ck_assert_uint_eq(taken(CU_AD_FORMAT_FLOAT, 1024, 256, 33), 64 * mib);
	ck_assert_uint_eq(taken((CUarray_format)0x7777, 1024, 1024, 0), 16 * mib);
	ck_assert_uint_eq(taken(CU_AD_FORMAT_FLOAT, SIZE_MAX, SIZE_MAX, SIZE_MAX), UINT64_MAX);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("array_bytes");

	tcase_add_test(tests, what_may_be_taken_is_whole_blocks);
	tcase_add_test(tests, each_format_is_known);
	tcase_add_test(tests, parts_of_blocks_count_as_blocks);
	return suite_run("array_bytes", tests);
}
