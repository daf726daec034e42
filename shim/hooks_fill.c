/* SPDX-License-Identifier: MIT */
/* Memsets: they pass the gate, and tell what is in use. */
#include "shim/sampled.h"

COPIES_2(cuMemsetD16Async, cuMemsetD16Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned short, us), (size_t, N), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD16_v2, cuMemsetD16_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (unsigned short, us), (size_t, N))
COPIES_2(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned short, us), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (size_t, dstPitch), (unsigned short, us), (size_t, Width), (size_t, Height))
COPIES_2(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned int, ui), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (size_t, dstPitch), (unsigned int, ui), (size_t, Width), (size_t, Height))
COPIES_2(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned char, uc), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (size_t, dstPitch), (unsigned char, uc), (size_t, Width), (size_t, Height))
COPIES_2(cuMemsetD32Async, cuMemsetD32Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned int, ui), (size_t, N), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD32_v2, cuMemsetD32_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (unsigned int, ui), (size_t, N))
COPIES_2(cuMemsetD8Async, cuMemsetD8Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned char, uc), (size_t, N), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD8_v2, cuMemsetD8_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (unsigned char, uc), (size_t, N))
