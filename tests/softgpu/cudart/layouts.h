/* SPDX-License-Identifier: MIT */
/* The sizes of structures that differ between the runtime's versions: SIZE_cudaDeviceProp. */
#ifndef SOFTGPU_CUDART_LAYOUTS_H
#define SOFTGPU_CUDART_LAYOUTS_H

/* The columns of layouts.def. */
enum layout { CUDA_11_8, CUDA_12_9, CUDA_13_0, LAYOUTS };

#if CUDART_MAJOR == 12
#define OWN_LAYOUT                     CUDA_12_9
#define STRUCTURE(name, v11, v12, v13) SIZE_##name = (v12),
#else
#define OWN_LAYOUT                     CUDA_13_0
#define STRUCTURE(name, v11, v12, v13) SIZE_##name = (v13),
#endif
#define FIELD(...)
#define GONE(...)
enum {
#include "tests/softgpu/cudart/layouts.def"
};
#undef STRUCTURE
#undef FIELD
#undef GONE

#endif
