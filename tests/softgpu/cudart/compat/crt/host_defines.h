/* SPDX-License-Identifier: MIT */
/*
 * The names of crt/host_defines.h that the CUDA runtime's headers need when C includes them. Found
 * last, for the headers alone, as packages hold them, come without the folder crt.
 */
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__

#endif
