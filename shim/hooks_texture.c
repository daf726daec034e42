/* Textures, surfaces and texture references: small, but they keep an address in use. */
#include "shim/track.h"

CREATES(cuTexObjectCreate, texture, pTexObject, (CUtexObject *, pTexObject),
        (const CUDA_RESOURCE_DESC *, pResDesc), (const CUDA_TEXTURE_DESC *, pTexDesc),
        (const CUDA_RESOURCE_VIEW_DESC *, pResViewDesc))
DESTROYS(cuTexObjectDestroy, texture, texObject, (CUtexObject, texObject))
CREATES(cuSurfObjectCreate, surface, pSurfObject, (CUsurfObject *, pSurfObject),
        (const CUDA_RESOURCE_DESC *, pResDesc))
DESTROYS(cuSurfObjectDestroy, surface, surfObject, (CUsurfObject, surfObject))
CREATES(cuTexRefCreate, texture_reference, pTexRef, (CUtexref *, pTexRef))
DESTROYS(cuTexRefDestroy, texture_reference, hTexRef, (CUtexref, hTexRef))
