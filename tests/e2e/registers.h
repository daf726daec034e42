/* SPDX-License-Identifier: MIT */
/*
 * The functions that the program of registers.c calls of the library of registers_library.c. The
 * library is built as libnccl.so.2, and by a name that no product has.
 */
#ifndef E2E_REGISTERS_H
#define E2E_REGISTERS_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

CUresult library_allocate(CUdeviceptr *address, size_t size);
CUresult library_create(CUmemGenericAllocationHandle *handle, size_t size,
                        const CUmemAllocationProp *prop);
CUresult library_ask(CUdeviceptr address);

#endif
