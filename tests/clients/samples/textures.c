/* SPDX-License-Identifier: MIT */
/* Textures: an array, written and read through a texture object's description. */
#include "tests/clients/samples/sample.h"

enum { SIDE = 16 };

int main(void)
{
	float pixels[SIDE * SIDE], back[SIDE * SIDE] = {0};
	CUarray array;
	CUtexObject texture;
	CUDA_ARRAY_DESCRIPTOR descriptor = {
	    .Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

	sample_open(NULL);
	SAMPLE_NEEDS(cuArrayCreate(&array, &descriptor));
	for (size_t i = 0; i < SIDE * SIDE; i++)
		pixels[i] = sample_random_float();
	CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                    .srcHost = pixels,
	                    .srcPitch = SIDE * sizeof(float),
	                    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
	                    .dstArray = array,
	                    .WidthInBytes = SIDE * sizeof(float),
	                    .Height = SIDE};
	CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
	                     .srcArray = array,
	                     .dstMemoryType = CU_MEMORYTYPE_HOST,
	                     .dstHost = back,
	                     .dstPitch = SIDE * sizeof(float),
	                     .WidthInBytes = SIDE * sizeof(float),
	                     .Height = SIDE};
	CU(cuMemcpy2D(&in));
	CU(cuMemcpy2D(&out));
	bool same = true;
	for (size_t i = 0; i < SIDE * SIDE; i++)
		same &= pixels[i] == back[i];
	sample_check(same, "an array keeps its pixels");

	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY,
	                               .res.array.hArray = array};
	CUDA_TEXTURE_DESC description = {.filterMode = CU_TR_FILTER_MODE_POINT};
	SAMPLE_NEEDS(cuTexObjectCreate(&texture, &resource, &description, NULL));
	CUDA_RESOURCE_DESC described;
	CU(cuTexObjectGetResourceDesc(&described, texture));
	sample_check(described.res.array.hArray == array, "a texture knows its array");
	CU(cuTexObjectDestroy(texture));
	CU(cuArrayDestroy(array));
	return sample_end();
}
