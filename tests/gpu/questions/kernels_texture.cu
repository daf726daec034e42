/* SPDX-License-Identifier: MIT */
/* One word through a texture. `make ptx` turns this file into kernels_texture.ptx. */
extern "C" __global__ void fetch(cudaTextureObject_t texture, unsigned *out)
{
	*out = tex1Dfetch<unsigned>(texture, 5);
}
