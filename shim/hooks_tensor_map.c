/* SPDX-License-Identifier: MIT */
/* Tensor maps: they hide an address, which is known to be in use from then on. */
#include "shim/sampled.h"
#include "shim/track.h"

/* Notes that a descriptor was made that leads to this address. */
static __attribute__((noinline)) void sampled_hide(CUdeviceptr address)
{
	KEEP_ERRNO;

	if (sampled_is_wanted())
		placement_tell(hide, address);
}

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

/* Textures, surfaces and texture references: small, but they keep an address in use. */

AFTER(cuTexObjectCreate, (CUtexObject *, pTexObject), (const CUDA_RESOURCE_DESC *, pResDesc),
      (const CUDA_TEXTURE_DESC *, pTexDesc), (const CUDA_RESOURCE_VIEW_DESC *, pResViewDesc))
{
	if (pTexObject)
		track(&object_type_texture, HANDLE(*pTexObject), 0);
	if (pResDesc && pResDesc->resType == CU_RESOURCE_TYPE_LINEAR)
		sampled_hide(pResDesc->res.linear.devPtr);
	else if (pResDesc && pResDesc->resType == CU_RESOURCE_TYPE_PITCH2D)
		sampled_hide(pResDesc->res.pitch2D.devPtr);
}

DESTROYS(cuTexObjectDestroy, texture, texObject, (CUtexObject, texObject))
CREATES(cuSurfObjectCreate, surface, pSurfObject, (CUsurfObject *, pSurfObject),
        (const CUDA_RESOURCE_DESC *, pResDesc))
DESTROYS(cuSurfObjectDestroy, surface, surfObject, (CUsurfObject, surfObject))
CREATES(cuTexRefCreate, texture_reference, pTexRef, (CUtexref *, pTexRef))
DESTROYS(cuTexRefDestroy, texture_reference, hTexRef, (CUtexref, hTexRef))
