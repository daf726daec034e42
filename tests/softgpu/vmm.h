/* SPDX-License-Identifier: MIT */
/* The interface of virtual memory management for other files. */
#ifndef SOFTGPU_VMM_H
#define SOFTGPU_VMM_H

#include <stdbool.h>
#include <stdint.h>

/* The cuMemAddressReserve() that holds the address; false when none does. Hold driver_lock. */
bool reservation_find(uint64_t address, uint64_t *base, uint64_t *size);

#endif
