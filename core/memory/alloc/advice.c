/* SPDX-License-Identifier: MIT */
/*
 * Books of advice. Rules: runs inside the user's process, within its calls; never calls the driver.
 */
#include "core/memory/alloc/advice.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/lock.h"

#define PAGE ((uint64_t)4096) /* the driver rounds to the host's pages */

static const CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_INVALID,
                                      .id = CU_DEVICE_INVALID};

struct piece {
	uint64_t from; /* to the next one's */
	struct advice advice;
};

struct advice_book {
	LOCK_OF(LEAF) lock; /* waits for nothing */
	uint64_t from, to;
	_Atomic uint64_t changes;
	struct piece *piece; /* by address, neighbours differ; the first begins the book */
	size_t count, capacity;
};

struct advice_book *advice_book_new(uint64_t from, uint64_t to)
{
	enum { FEW = 4 };
	struct advice_book *book = malloc(sizeof *book);
	struct piece *piece = malloc(FEW * sizeof *piece);

	if (!book || !piece) {
		free(book);
		free(piece);
		return NULL;
	}
	*book = (struct advice_book){.from = from,
	                             .to = (to + PAGE - 1) / PAGE * PAGE,
	                             .piece = piece,
	                             .count = 1,
	                             .capacity = FEW};
	lock_init(&book->lock);
	piece[0] = (struct piece){from, {.preferred = nowhere, .prefetched = nowhere}};
	return book;
}

void advice_book_free(struct advice_book *book)
{
	if (!book)
		return;
	lock_destroy(&book->lock);
	free(book->piece);
	free(book);
}

uint64_t advice_book_from(const struct advice_book *book)
{
	return book->from;
}

uint64_t advice_changes(const struct advice_book *book)
{
	return atomic_load(&book->changes);
}

static bool same_location(CUmemLocation a, CUmemLocation b)
{
	return a.type == b.type && (a.id == b.id || a.type == CU_MEM_LOCATION_TYPE_INVALID ||
	                            a.type == CU_MEM_LOCATION_TYPE_HOST);
}

static bool same(const struct advice *a, const struct advice *b)
{
	return same_location(a->preferred, b->preferred) &&
	       same_location(a->prefetched, b->prefetched) && a->accessed_by == b->accessed_by &&
	       a->accessed_by_host == b->accessed_by_host && a->read_mostly == b->read_mostly;
}

/* Returns the piece that holds an address of the book. */
static size_t advice_piece_at(const struct advice_book *book, uint64_t at)
{
	size_t first = 0, last = book->count;

	while (last - first > 1) {
		size_t middle = first + (last - first) / 2;

		if (book->piece[middle].from <= at)
			first = middle;
		else
			last = middle;
	}
	return first;
}

/* Makes a piece begin at an address of the book; there is room for it. Returns it. */
static size_t cut(struct advice_book *book, uint64_t at)
{
	size_t i = advice_piece_at(book, at);

	if (book->piece[i].from == at)
		return i;
	memmove(&book->piece[i + 1], &book->piece[i], (book->count - i) * sizeof *book->piece);
	book->count++;
	book->piece[i + 1].from = at;
	return i + 1;
}

static bool advice_grow(struct advice_book *book)
{
	struct piece *grown;

	if (book->capacity - book->count >= 2)
		return true;
	grown = realloc(book->piece, 2 * book->capacity * sizeof *grown);
	if (!grown)
		return false;
	book->piece = grown;
	book->capacity *= 2;
	return true;
}

/* Joins neighbours that have become alike, from the one before `first` to `last`. */
static void advice_join(struct advice_book *book, size_t first, size_t last)
{
	size_t kept = first ? first - 1 : 0;
	size_t end = last < book->count - 1 ? last : book->count - 1;

	for (size_t i = kept + 1; i <= end; i++)
		if (!same(&book->piece[kept].advice, &book->piece[i].advice))
			book->piece[++kept] = book->piece[i];
	memmove(&book->piece[kept + 1], &book->piece[end + 1],
	        (book->count - end - 1) * sizeof *book->piece);
	book->count -= end - kept;
}

struct change {
	CUmem_advise advice; /* 0: a prefetch */
	CUmemLocation location;
};

static void advice_apply(struct advice *advice, const struct change *change)
{
	bool is_device = change->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	uint64_t bit = is_device && change->location.id >= 0 && change->location.id < ADVICE_DEVICES
	                   ? UINT64_C(1) << change->location.id
	                   : 0;

	switch ((int)change->advice) {
	case 0:
		advice->prefetched = change->location;
		break;
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		advice->read_mostly = change->advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		advice->preferred = change->location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		advice->preferred = nowhere;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		advice->accessed_by |= bit;
		advice->accessed_by_host |= !is_device;
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		advice->accessed_by &= ~bit;
		advice->accessed_by_host &= is_device;
		break;
	default:
		break;
	}
}

static void advice_change(struct advice_book *book, uint64_t from, uint64_t to,
                          const struct change *change)
{
	size_t first, last;

	from = from / PAGE * PAGE;
	to = to > book->to - PAGE ? book->to : (to + PAGE - 1) / PAGE * PAGE;
	if (from < book->from)
		from = book->from;
	if (from >= to)
		return;
	lock_acquire(&book->lock);
	if (advice_grow(book)) {
		first = cut(book, from);
		last = to < book->to ? cut(book, to) : book->count;
		for (size_t i = first; i < last; i++)
			advice_apply(&book->piece[i].advice, change);
		advice_join(book, first, last);
		atomic_fetch_add(&book->changes, 1);
	}
	lock_release(&book->lock);
}

void advice_given(struct advice_book *book, uint64_t from, uint64_t to, CUmem_advise advice,
                  CUmemLocation location)
{
	advice_change(book, from, to, &(struct change){advice, location});
}

void advice_prefetched(struct advice_book *book, uint64_t from, uint64_t to, CUmemLocation location)
{
	advice_change(book, from, to, &(struct change){0, location});
}

void advice_narrow(struct advice *all, const struct advice *other)
{
	if (!same_location(all->preferred, other->preferred))
		all->preferred = nowhere;
	if (!same_location(all->prefetched, other->prefetched))
		all->prefetched = nowhere;
	all->accessed_by &= other->accessed_by;
	all->accessed_by_host = all->accessed_by_host && other->accessed_by_host;
	all->read_mostly = all->read_mostly && other->read_mostly;
}

struct advice advice_common(struct advice_book *book, uint64_t from, uint64_t to)
{
	struct advice all;

	lock_acquire(&book->lock);
	size_t i = advice_piece_at(book, from);
	all = book->piece[i].advice;
	while (++i < book->count && book->piece[i].from < to)
		advice_narrow(&all, &book->piece[i].advice);
	lock_release(&book->lock);
	return all;
}

uint64_t advice_piece(struct advice_book *book, uint64_t from, uint64_t to, struct advice *advice)
{
	uint64_t end = to;

	lock_acquire(&book->lock);
	size_t i = advice_piece_at(book, from);
	*advice = book->piece[i].advice;
	if (i + 1 < book->count && book->piece[i + 1].from < to)
		end = book->piece[i + 1].from;
	lock_release(&book->lock);
	return end;
}

int advice_ordinal(CUmemLocation location)
{
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return location.id;
	return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

CUmemLocation advice_location(int ordinal)
{
	if (ordinal == CU_DEVICE_INVALID)
		return nowhere;
	if (ordinal == CU_DEVICE_CPU)
		return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
}
