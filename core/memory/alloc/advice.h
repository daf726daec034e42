/* SPDX-License-Identifier: MIT */
/*
 * Advice: the program's advice for managed memory, and the place where it last prefetched it to.
 *
 * The driver keeps this itself, but where the limit holds memory back our own advice stands there
 * in place of the program's. So a book is kept for that part of an allocation, page by page in
 * pieces that are alike. From it the program's questions are answered and its advice is given to
 * the driver once the memory may come. Thread-safe; calls no driver.
 */
#ifndef SPILLWAY_ADVICE_H
#define SPILLWAY_ADVICE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ADVICE_DEVICES = 64 }; /* of further devices it is not known which use the memory */

struct advice {
	CUmemLocation preferred, prefetched; /* of type CU_MEM_LOCATION_TYPE_INVALID: none */
	uint64_t accessed_by;                /* devices, by bit */
	bool accessed_by_host, read_mostly;
};

struct advice_book;

/* Makes a book of [from, to), where nothing was advised yet. Returns NULL without memory for it. */
struct advice_book *advice_book_new(uint64_t from, uint64_t to);
void advice_book_free(struct advice_book *book);
/* Returns where it begins, in bytes of the allocation. */
uint64_t advice_book_from(const struct advice_book *book);

/*
 * Writes down the part of the program's call for [from, to), which the driver has taken, that
 * concerns the book. Without memory for it the older advice stays.
 */
void advice_given(struct advice_book *book, uint64_t from, uint64_t to, CUmem_advise advice,
                  CUmemLocation location);
void advice_prefetched(struct advice_book *book, uint64_t from, uint64_t to,
                       CUmemLocation location);

/* Reads the advice that is common to all of [from, to), which is in the book. */
struct advice advice_common(struct advice_book *book, uint64_t from, uint64_t to);
/* Reads the advice at `from` and how far it holds, at most to `to`. Returns that end. */
uint64_t advice_piece(struct advice_book *book, uint64_t from, uint64_t to, struct advice *advice);

/* Returns how often something was written down. */
uint64_t advice_changes(const struct advice_book *book);

/* Narrows `all` to the advice that is common to both. */
void advice_narrow(struct advice *all, const struct advice *other);
/* Returns how a location is told where there is but a number for it. */
int advice_ordinal(CUmemLocation location);
/* Returns the location that such a number means. */
CUmemLocation advice_location(int ordinal);

#endif
