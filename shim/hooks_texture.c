/* SPDX-License-Identifier: MIT */
/* Textures, surfaces and texture references: small, but they keep an address in use. */
#include "shim/sampled.h"
#include "shim/track.h"

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
