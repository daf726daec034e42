/* SPDX-License-Identifier: MIT */
/* Tensor maps: they hide an address, which is known to be in use from then on. */
#include "shim/sampled.h"

#define HIDES(call)                                                          \
	({                                                                   \
		CUresult hidden_ = (call);                                   \
		if (hidden_ == CUDA_SUCCESS)                                 \
			sampled_hide((CUdeviceptr)(uintptr_t)globalAddress); \
		hidden_;                                                     \
	})

/* Every form begins with these. */
#define TENSOR                                                                             \
	CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, \
	    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides
#define TENSOR_ARGUMENTS \
	tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides

HOOK(cuTensorMapEncodeTiled, TENSOR, const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
     CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	return HIDES(REAL(cuTensorMapEncodeTiled)(TENSOR_ARGUMENTS, boxDim, elementStrides,
	                                          interleave, swizzle, l2Promotion, oobFill));
}

HOOK(cuTensorMapEncodeIm2col, TENSOR, const int *pixelBoxLowerCorner,
     const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
     const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
     CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	return HIDES(REAL(cuTensorMapEncodeIm2col)(
	    TENSOR_ARGUMENTS, pixelBoxLowerCorner, pixelBoxUpperCorner, channelsPerPixel,
	    pixelsPerColumn, elementStrides, interleave, swizzle, l2Promotion, oobFill));
}

HOOK(cuTensorMapEncodeIm2colWide, TENSOR, int pixelBoxLowerCornerWidth,
     int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
     const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
     CUtensorMapFloatOOBfill oobFill)
{
	return HIDES(REAL(cuTensorMapEncodeIm2colWide)(
	    TENSOR_ARGUMENTS, pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel,
	    pixelsPerColumn, elementStrides, interleave, mode, swizzle, l2Promotion, oobFill));
}

HOOK(cuTensorMapReplaceAddress, CUtensorMap *tensorMap, void *globalAddress)
{
	return HIDES(REAL(cuTensorMapReplaceAddress)(tensorMap, globalAddress));
}
