/* SPDX-License-Identifier: MIT */
/*
 * Mapping and unmapping, each asked of the driver once more where it fails: what stays mapped keeps
 * its memory for good, and what cannot be mapped back is lost to the program. Thread-safe.
 */
#ifndef SPILLWAY_MAPPING_H
#define SPILLWAY_MAPPING_H

#include "core/cuda/driver.h"

CUresult mapping_make(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle);
CUresult mapping_remove(CUdeviceptr address, size_t size);
CUresult mapping_allow(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                       size_t count);

#endif
