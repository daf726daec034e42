/* SPDX-License-Identifier: MIT */
/* Managed memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/managed.h"

#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/reclaim.h"

#define BLOCK ((uint64_t)2 << 20) /* the unit in which the driver moves pages at most */

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
static _Atomic uint64_t turns;

static void let_come(const struct allocation *a, uint64_t from, uint64_t to)
{
	uint64_t changes;

	if (!a->advice)
		return;
	if (from < advice_book_from(a->advice))
		from = advice_book_from(a->advice);
	if (to > a->size)
		to = a->size;
	do {
		changes = advice_changes(a->advice);
		managed_tell(a, from, to);
		turns++;
	} while (changes != advice_changes(a->advice));
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
	struct allocation *a = allocation_managed_at(address);

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
	return turns;
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
	uint64_t from = advice_book_from(a->advice), to = a->charged;

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
			advice_given(book, part.from, part.to, advice, location);
			put_ours_back(&part, advice, location);
			if (turns != mark)
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
			advice_prefetched(part.allocation->advice, part.from, part.to, location);
		resource_release(&part.allocation->resource);
	}
}

/* --- answers --- */

/* Asks the driver for a range's location: by type and number, or as drivers before 12.2 tell it. */
static CUmemLocation ask_location(CUdeviceptr address, size_t size, CUmem_range_attribute type,
                                  CUmem_range_attribute id, CUmem_range_attribute ordinal)
{
	CUmemLocation location = advice_location(CU_DEVICE_INVALID);
	int value = CU_DEVICE_INVALID, number = 0;

	if (driver.cuMemRangeGetAttribute(&value, sizeof value, type, address, size) == 0 &&
	    driver.cuMemRangeGetAttribute(&number, sizeof number, id, address, size) == 0) {
		location.type = (CUmemLocationType)value;
		location.id = number;
		return location;
	}
	value = CU_DEVICE_INVALID;
	driver.cuMemRangeGetAttribute(&value, sizeof value, ordinal, address, size);
	return advice_location(value);
}

/* Asks the driver for an attribute of a range that is not in a book. */
static struct advice managed_ask(CUmem_range_attribute attribute, CUdeviceptr address, size_t size)
{
	struct advice all = {.preferred = advice_location(CU_DEVICE_INVALID),
	                     .prefetched = advice_location(CU_DEVICE_INVALID)};
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
	uint64_t from = a->advice ? advice_book_from(a->advice) : part->to;
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
		is = part.allocation->advice && part.to > advice_book_from(part.allocation->advice);
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
