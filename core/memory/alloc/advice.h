/* SPDX-License-Identifier: MIT */
/* The program's advice for managed memory, and the place where it last prefetched it to. */
#ifndef SPILLWAY_ADVICE_H
#define SPILLWAY_ADVICE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/lock.h"

enum { ADVICE_DEVICES = 64 }; /* of further devices it is not known which use the memory */

struct advice {
	CUmemLocation preferred, prefetched; /* of type CU_MEM_LOCATION_TYPE_INVALID: none */
	uint64_t accessed_by;                /* devices, by bit */
	bool accessed_by_host, read_mostly;
};

/* A piece of memory in which all has the same advice. */
struct piece {
	uint64_t from; /* to the next one's */
	struct advice advice;
};

/*
 * A book of advice. The driver keeps the program's advice itself, but where the limit holds memory
 * back our own advice stands there in place of the program's. So a book is kept for that part of an
 * allocation, page by page in pieces that are alike. From it the program's questions are answered
 * and its advice is given to the driver once the memory may come. It is thread-safe by itself, and
 * no driver is called for it.
 */
struct advice_book {
	LOCK_OF(LEAF) lock; /* waits for nothing */
	uint64_t from, to;
	_Atomic uint64_t changes;
	struct piece *piece; /* by address, neighbours differ; the first begins the book */
	size_t count, capacity;
};

/* Frees an allocation's book; NULL is fine. */
static inline void advice_book_free(struct advice_book *book)
{
	if (!book)
		return;
	lock_destroy(&book->lock);
	free(book->piece);
	free(book);
}

#endif
