/* Memsets: they pass the gate, and tell what is in use. */
#include "shim/sampled.h"

GATED(cuMemsetD16, (CUdeviceptr_v1, dstDevice), (unsigned short, us), (unsigned int, N))
COPIES_2(cuMemsetD16Async, cuMemsetD16Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned short, us), (size_t, N), (CUstream, hStream))
COPIES_2(cuMemsetD16_v2, cuMemsetD16_v2_ptds, sampled_copy(dstDevice, 0), (CUdeviceptr, dstDevice),
         (unsigned short, us), (size_t, N))
GATED(cuMemsetD2D16, (CUdeviceptr_v1, dstDevice), (unsigned int, dstPitch), (unsigned short, us),
      (unsigned int, Width), (unsigned int, Height))
COPIES_2(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned short, us), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_2(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned short, us), (size_t, Width),
         (size_t, Height))
GATED(cuMemsetD2D32, (CUdeviceptr_v1, dstDevice), (unsigned int, dstPitch), (unsigned int, ui),
      (unsigned int, Width), (unsigned int, Height))
COPIES_2(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned int, ui), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_2(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned int, ui), (size_t, Width),
         (size_t, Height))
GATED(cuMemsetD2D8, (CUdeviceptr_v1, dstDevice), (unsigned int, dstPitch), (unsigned char, uc),
      (unsigned int, Width), (unsigned int, Height))
COPIES_2(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned char, uc), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_2(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned char, uc), (size_t, Width),
         (size_t, Height))
GATED(cuMemsetD32, (CUdeviceptr_v1, dstDevice), (unsigned int, ui), (unsigned int, N))
COPIES_2(cuMemsetD32Async, cuMemsetD32Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned int, ui), (size_t, N), (CUstream, hStream))
COPIES_2(cuMemsetD32_v2, cuMemsetD32_v2_ptds, sampled_copy(dstDevice, 0), (CUdeviceptr, dstDevice),
         (unsigned int, ui), (size_t, N))
GATED(cuMemsetD8, (CUdeviceptr_v1, dstDevice), (unsigned char, uc), (unsigned int, N))
COPIES_2(cuMemsetD8Async, cuMemsetD8Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned char, uc), (size_t, N), (CUstream, hStream))
COPIES_2(cuMemsetD8_v2, cuMemsetD8_v2_ptds, sampled_copy(dstDevice, 0), (CUdeviceptr, dstDevice),
         (unsigned char, uc), (size_t, N))
