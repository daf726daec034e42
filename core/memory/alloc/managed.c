/* SPDX-License-Identifier: MIT */
/* Managed memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/managed.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc/advice.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/reclaim.h"

#define BLOCK ((uint64_t)2 << 20) /* the unit in which the driver moves pages at most */
#define PAGE  ((uint64_t)4096)    /* the driver rounds to the host's pages */

static const CUmemLocation managed_nowhere = {.type = CU_MEM_LOCATION_TYPE_INVALID,
                                              .id = CU_DEVICE_INVALID};

/* --- the program's advice --- */

/* Makes a book of [from, to), where nothing was advised yet. Returns NULL without memory for it. */
static struct advice_book *advice_book_new(uint64_t from, uint64_t to)
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
	piece[0] =
	    (struct piece){from, {.preferred = managed_nowhere, .prefetched = managed_nowhere}};
	return book;
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
		advice->preferred = managed_nowhere;
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

/*
 * Writes down the part of a change of [from, to), which the driver has taken, that concerns the
 * book. Without memory for it the older advice stays.
 */
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

/* Narrows `all` to the advice that is common to both. */
static void advice_narrow(struct advice *all, const struct advice *other)
{
	if (!same_location(all->preferred, other->preferred))
		all->preferred = managed_nowhere;
	if (!same_location(all->prefetched, other->prefetched))
		all->prefetched = managed_nowhere;
	all->accessed_by &= other->accessed_by;
	all->accessed_by_host = all->accessed_by_host && other->accessed_by_host;
	all->read_mostly = all->read_mostly && other->read_mostly;
}

/* Reads the advice that is common to all of [from, to), which is in the book. */
static struct advice advice_common(struct advice_book *book, uint64_t from, uint64_t to)
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

/* Reads the advice at `from` and how far it holds, at most to `to`. Returns that end. */
static uint64_t advice_piece(struct advice_book *book, uint64_t from, uint64_t to,
                             struct advice *advice)
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

/* Returns how a location is told where there is but a number for it. */
static int advice_ordinal(CUmemLocation location)
{
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return location.id;
	return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/* --- what is charged --- */

static uint64_t managed_rounded(uint64_t size)
{
	return size > UINT64_MAX - BLOCK ? size : (size + BLOCK - 1) / BLOCK * BLOCK;
}

/*
 * Charges as much as is left below the limit, and no more than there is when another thread takes
 * it at the same time.
 */
static uint64_t charge_what_fits(struct device *device, uint64_t bytes)
{
	const struct terms terms = terms_of(device);
	struct deadline until = reclaim_deadline(&terms, false);
	struct reclaim r = {.device = device, .terms = &terms, .until = &until};

	if (reclaim_and_charge(&r, SEGMENT_ON_DEVICE, bytes) == 0)
		return bytes;
	for (int tries = 0; tries < 3; tries++) {
		uint64_t used = device_charged(device, SEGMENT_ON_DEVICE);
		uint64_t left = used < terms.limit ? (terms.limit - used) / BLOCK * BLOCK : 0;

		if (left == 0 || left >= bytes)
			return 0;
		if (device_charge(device, left) == 0)
			return left;
	}
	return 0;
}

/* Advises memory to stay on the host. Where these hints are refused it may come all the same. */
static void keep_on_host(const struct allocation *a, uint64_t from)
{
	driver.cuMemAdvise(a->address + from, a->size - from, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	                   CU_DEVICE_CPU);
	driver.cuMemAdvise(a->address + from, a->size - from, CU_MEM_ADVISE_SET_ACCESSED_BY,
	                   a->context.device->handle);
}

static void tell_piece(const struct allocation *a, CUdeviceptr address, size_t size,
                       const struct advice *advice)
{
	CUdevice device = a->context.device->handle;
	bool is_used = device < ADVICE_DEVICES && advice->accessed_by >> device & 1;

	if (advice->preferred.type == CU_MEM_LOCATION_TYPE_INVALID)
		driver.cuMemAdvise(address, size, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
		                   CU_DEVICE_CPU);
	else if (advice->preferred.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && driver.cuMemAdvise_v2)
		driver.cuMemAdvise_v2(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
		                      advice->preferred);
	else
		driver.cuMemAdvise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
		                   advice_ordinal(advice->preferred));
	driver.cuMemAdvise(
	    address, size,
	    is_used ? CU_MEM_ADVISE_SET_ACCESSED_BY : CU_MEM_ADVISE_UNSET_ACCESSED_BY, device);
}

/* Gives the driver the program's advice for [from, to) of memory that may come. */
static void managed_tell(const struct allocation *a, uint64_t from, uint64_t to)
{
	while (from < to) {
		struct advice advice;
		uint64_t end = advice_piece(a->advice, from, to, &advice);

		tell_piece(a, a->address + from, end - from, &advice);
		from = end;
	}
}

/*
 * Counts how often memory was let come. An advice that the program gives meanwhile may reach the
 * driver before ours is taken back, and the book after it was read. So a thread that lets memory
 * come reads the book again if it has changed. A thread that wrote into the book tells the driver
 * again if memory was let come meanwhile.
 */
static _Atomic uint64_t times_let_come;

static void let_come(const struct allocation *a, uint64_t from, uint64_t to)
{
	uint64_t changes;

	if (!a->advice)
		return;
	if (from < a->advice->from)
		from = a->advice->from;
	if (to > a->size)
		to = a->size;
	do {
		changes = atomic_load(&a->advice->changes);
		managed_tell(a, from, to);
		times_let_come++;
	} while (changes != atomic_load(&a->advice->changes));
}

/* pool: that the memory was asked of, or NULL. */
static void made_in(struct context context, CUdeviceptr address, size_t size, struct pool *pool)
{
	struct allocation *a;
	uint64_t charged;

	charged = charge_what_fits(context.device, managed_rounded(size));
	a = allocation_create(&context, address, size, SEGMENT_ON_DEVICE, charged);
	if (!a) {
		device_uncharge(context.device, SEGMENT_ON_DEVICE, charged);
		return;
	}
	a->is_managed = true;
	if (pool) {
		pool_hold(pool);
		a->pool = pool;
	}
	device_count_elsewhere(context.device, (int64_t)charged);
	if (charged < size) {
		/* Without a book the program sees our advice, but the limit holds. */
		a->advice = advice_book_new(charged, size);
		keep_on_host(a, charged);
	}
	if (allocation_enter(a) != 0)
		resource_release(&a->resource); /* gives it back */
}

void managed_made(CUdeviceptr address, size_t size)
{
	struct context context;

	if (context_current(&context))
		made_in(context, address, size, NULL);
}

void managed_made_by_pool(struct pool *pool, CUdeviceptr address, size_t size,
                          CUmemLocation preferred)
{
	const struct device *device =
	    preferred.type == CU_MEM_LOCATION_TYPE_DEVICE ? context_device(preferred.id) : NULL;
	struct context context;

	if ((device && context_of_device(device, &context)) || context_current(&context))
		made_in(context, address, size, pool);
	if (preferred.type != CU_MEM_LOCATION_TYPE_INVALID)
		managed_advised(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, preferred,
		                managed_mark());
}

/* Charges an allocation up to `to`, as far as the limit allows, and lets that come. */
static void charge_up_to(struct allocation *a, uint64_t to)
{
	uint64_t before = a->charged, more;

	while (managed_rounded(to) > before) {
		more = charge_what_fits(a->context.device, managed_rounded(to) - before);
		if (!more)
			return;
		if (atomic_compare_exchange_strong(&a->charged, &before, before + more)) {
			device_count_elsewhere(a->context.device, (int64_t)more);
			if (before < a->size)
				let_come(a, before, before + more);
			return;
		}
		/* Another thread was quicker. */
		device_uncharge(a->context.device, SEGMENT_ON_DEVICE, more);
	}
}

/* The part of a range that lies in one allocation. */
struct part {
	struct allocation *allocation; /* a reference */
	uint64_t from, to;
};

static bool part_at(struct part *part, CUdeviceptr address, size_t size)
{
	struct allocation *a = allocation_mapped_at(address, true);

	if (!a)
		return false;
	part->allocation = a;
	part->from = address - a->address;
	part->to = size < a->size - part->from ? part->from + size : a->size;
	return true;
}

/*
 * Returns whether all of it is managed memory that we know: else the driver refuses it, or it is
 * not ours to judge.
 */
static bool managed_is_known(CUdeviceptr address, size_t size)
{
	struct part part;

	for (size_t done = 0; done < size; done += part.to - part.from) {
		if (!part_at(&part, address + done, size - done))
			return false;
		resource_release(&part.allocation->resource);
	}
	return true;
}

size_t managed_may_come(CUdeviceptr address, size_t size)
{
	struct part part;
	size_t done = 0;

	if (!managed_is_known(address, size))
		return size;
	while (done < size && part_at(&part, address + done, size - done)) {
		struct allocation *a = part.allocation;
		uint64_t charged, may;

		charge_up_to(a, part.to);
		charged = a->charged;
		may = charged >= part.to ? part.to : charged > part.from ? charged : part.from;
		done += may - part.from;
		resource_release(&a->resource);
		if (may < part.to)
			break;
	}
	return done;
}

uint64_t managed_mark(void)
{
	return times_let_come;
}

/* Puts our advice back where memory is held back; elsewhere the program's stands. */
static void put_ours_back(const struct part *part, CUmem_advise advice, CUmemLocation location)
{
	const struct allocation *a = part->allocation;
	uint64_t from = a->charged > part->from ? a->charged : part->from;

	if (advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY && from < part->to &&
	    location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    location.id == a->context.device->handle)
		driver.cuMemAdvise(a->address + from, part->to - from,
		                   CU_MEM_ADVISE_SET_ACCESSED_BY, location.id);
}

/* Tells the driver again about memory that came meanwhile. */
static void tell_what_came(const struct part *part)
{
	const struct allocation *a = part->allocation;
	uint64_t from = a->advice->from, to = a->charged;

	managed_tell(a, from > part->from ? from : part->from, to < part->to ? to : part->to);
}

void managed_advised(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location,
                     uint64_t mark)
{
	struct part part;

	for (size_t done = 0; done < size && part_at(&part, address + done, size - done);
	     done += part.to - part.from) {
		struct advice_book *book = part.allocation->advice;

		if (book) {
			advice_change(book, part.from, part.to, &(struct change){advice, location});
			put_ours_back(&part, advice, location);
			if (times_let_come != mark)
				tell_what_came(&part);
		}
		resource_release(&part.allocation->resource);
	}
}

void managed_prefetched(CUdeviceptr address, size_t size, CUmemLocation location)
{
	struct part part;

	for (size_t done = 0; done < size && part_at(&part, address + done, size - done);
	     done += part.to - part.from) {
		if (part.allocation->advice)
			advice_change(part.allocation->advice, part.from, part.to,
			              &(struct change){0, location});
		resource_release(&part.allocation->resource);
	}
}

/* --- answers --- */

/* Asks the driver for a range's location: by type and number, or as drivers before 12.2 tell it. */
static CUmemLocation ask_location(CUdeviceptr address, size_t size, CUmem_range_attribute type,
                                  CUmem_range_attribute id, CUmem_range_attribute ordinal)
{
	CUmemLocation location = managed_nowhere;
	int value = CU_DEVICE_INVALID, number = 0;

	if (driver.cuMemRangeGetAttribute(&value, sizeof value, type, address, size) == 0 &&
	    driver.cuMemRangeGetAttribute(&number, sizeof number, id, address, size) == 0) {
		location.type = (CUmemLocationType)value;
		location.id = number;
		return location;
	}
	value = CU_DEVICE_INVALID;
	driver.cuMemRangeGetAttribute(&value, sizeof value, ordinal, address, size);
	return managed_location(value);
}

/* Asks the driver for an attribute of a range that is not in a book. */
static struct advice managed_ask(CUmem_range_attribute attribute, CUdeviceptr address, size_t size)
{
	struct advice all = {.preferred = managed_nowhere, .prefetched = managed_nowhere};
	int list[ADVICE_DEVICES + 1], value = 0;

	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		driver.cuMemRangeGetAttribute(&value, sizeof value, attribute, address, size);
		all.read_mostly = value != 0;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		if (driver.cuMemRangeGetAttribute(list, sizeof list, attribute, address, size) != 0)
			break;
		for (int i = 0; i <= ADVICE_DEVICES; i++) {
			all.accessed_by_host |= list[i] == CU_DEVICE_CPU;
			if (list[i] >= 0 && list[i] < ADVICE_DEVICES)
				all.accessed_by |= UINT64_C(1) << list[i];
		}
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		all.preferred =
		    ask_location(address, size, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
		                 CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
		                 CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION);
		break;
	default:
		all.prefetched =
		    ask_location(address, size, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
		                 CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
		                 CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION);
	}
	return all;
}

static void managed_list_users(const struct advice *all, int *list, size_t count)
{
	size_t used = 0;

	for (int i = 0; i < ADVICE_DEVICES && used < count; i++)
		if (all->accessed_by >> i & 1)
			list[used++] = i;
	if (all->accessed_by_host && used < count)
		list[used++] = CU_DEVICE_CPU;
	while (used < count)
		list[used++] = CU_DEVICE_INVALID;
}

static void write_answer(const struct advice *all, CUmem_range_attribute attribute, int *value,
                         size_t count)
{
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*value = all->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*value = advice_ordinal(all->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		managed_list_users(all, value, count);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*value = advice_ordinal(all->prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*value = (int)all->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*value = all->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*value = (int)all->prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*value = all->prefetched.id;
		break;
	default:
		break; /* a newer one: the driver's answer stands */
	}
}

/* Narrows `all` to the advice for a part of a range. */
static void narrow_to(struct advice *all, const struct part *part, CUmem_range_attribute attribute,
                      bool is_first)
{
	const struct allocation *a = part->allocation;
	uint64_t from = a->advice ? a->advice->from : part->to;
	struct advice one;

	if (from > part->from) {
		uint64_t end = from < part->to ? from : part->to;

		one = managed_ask(attribute, a->address + part->from, end - part->from);
		if (is_first)
			*all = one;
		advice_narrow(all, &one);
		is_first = false;
	}
	if (from >= part->to)
		return;
	one = advice_common(a->advice, from > part->from ? from : part->from, part->to);
	if (is_first)
		*all = one;
	advice_narrow(all, &one);
}

static bool is_in_book(CUdeviceptr address, size_t size)
{
	struct part part;
	bool is = false;

	for (size_t done = 0; !is && done < size && part_at(&part, address + done, size - done);
	     done += part.to - part.from) {
		is = part.allocation->advice && part.to > part.allocation->advice->from;
		resource_release(&part.allocation->resource);
	}
	return is;
}

void managed_answer(void *data, size_t data_size, CUmem_range_attribute attribute,
                    CUdeviceptr address, size_t size)
{
	struct advice all = {0};
	struct part part;
	size_t done = 0;

	if (!is_in_book(address, size) ||
	    attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
		return;
	for (; done < size && part_at(&part, address + done, size - done);
	     done += part.to - part.from) {
		narrow_to(&all, &part, attribute, done == 0);
		resource_release(&part.allocation->resource);
	}
	if (done == size)
		write_answer(&all, attribute, data, data_size / sizeof(int));
}
