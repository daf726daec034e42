/* SPDX-License-Identifier: MIT */
/*
 * When memory outside of arenas was used last: a word (heat.h) for each 2 MiB of addresses that the
 * program has mapped itself.
 *
 * Words are never freed, so that they are found without a lock. Thread-safe.
 */
#ifndef SPILLWAY_TOUCHED_H
#define SPILLWAY_TOUCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cuda/driver.h"

#define TOUCHED_UNIT ((uint64_t)2 << 20)

/* All words are for addresses within; low is above high while there are none. */
extern struct touched_span {
	_Atomic CUdeviceptr low, high;
} touched_span;

/* Gives the range words, all 0: never used. Returns whether there was memory for them. */
bool touched_open(CUdeviceptr address, size_t size);
/* Returns the word for an address; NULL: it has none. */
_Atomic uint32_t *touched_word(CUdeviceptr address);

#endif
