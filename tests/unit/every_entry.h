/* SPDX-License-Identifier: MIT */
/*
 * Test drivers that have every entry point of the table. The including file defines called(entry,
 * words) before, and gets a function for each row that calls it.
 *
 * Each is taken to have sixteen integer parameters: six in registers and ten on the stack hold the
 * caller's values. The C name differs from the symbol, so that no prototype is in the way.
 */
#include <stdint.h>

#define FUNCTION(symbol, class, action)                                                         \
	__attribute__((visibility("default"))) CUresult driver_##symbol(                        \
	    uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, \
	    uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n, \
	    uint64_t o, uint64_t p) __asm__(#symbol);                                           \
	CUresult driver_##symbol(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,    \
	                         uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j,    \
	                         uint64_t k, uint64_t l, uint64_t m, uint64_t n, uint64_t o,    \
	                         uint64_t p)                                                    \
	{                                                                                       \
		const uint64_t words[] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};      \
		return called(ENTRY_##symbol, words);                                           \
	}
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
