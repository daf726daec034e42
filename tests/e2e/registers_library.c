/* SPDX-License-Identifier: MIT */
/*
 * A library that makes memory of its own and asks about the program's, as one does that registers
 * both for a network.
 */
#include "tests/e2e/registers.h"

CUresult library_allocate(CUdeviceptr *address, size_t size)
{
	CUresult result = cuMemAlloc_v2(address, size);

	return result; /* no jump, which would make the program the caller */
}

CUresult library_create(CUmemGenericAllocationHandle *handle, size_t size,
                        const CUmemAllocationProp *prop)
{
	CUresult result = cuMemCreate(handle, size, prop, 0);

	return result;
}

CUresult library_ask(CUdeviceptr address)
{
	unsigned int type;
	CUdeviceptr base;
	size_t size;
	CUresult result = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);

	return result == CUDA_SUCCESS ? cuMemGetAddressRange_v2(&base, &size, address) : result;
}
