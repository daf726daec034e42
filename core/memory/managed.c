/* Managed memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/managed.h"

#include "core/memory/allocation.h"
#include "core/memory/room.h"

#define BLOCK ((uint64_t)2 << 20) /* the unit in which the driver moves pages at most */

static uint64_t rounded(uint64_t size)
{
	return size > UINT64_MAX - BLOCK ? size : (size + BLOCK - 1) / BLOCK * BLOCK;
}

/* As much of it as is left; no more than there is when others take it at the same time. */
static uint64_t charge_what_fits(struct device *device, uint64_t bytes)
{
	struct deadline until = room_deadline(device, false);

	if (room_charge(device, bytes, &until) == 0)
		return bytes;
	for (int tries = 0; tries < 3; tries++) {
		uint64_t limit = device_limit(device);
		uint64_t used = device_charged(device, SEGMENT_ON_DEVICE);
		uint64_t left = used < limit ? (limit - used) / BLOCK * BLOCK : 0;

		if (left == 0 || left >= bytes)
			return 0;
		if (room_charge(device, left, &until) == 0)
			return left;
	}
	return 0;
}

/* Hints: where they are refused, it may come to the device all the same. */
static void keep_on_host(const struct allocation *a, uint64_t from)
{
	driver.cuMemAdvise(a->address + from, a->size - from, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	                   CU_DEVICE_CPU);
	driver.cuMemAdvise(a->address + from, a->size - from, CU_MEM_ADVISE_SET_ACCESSED_BY,
	                   a->context.device->handle);
}

static void let_come(const struct allocation *a, uint64_t from, uint64_t to)
{
	if (to > a->size)
		to = a->size;
	driver.cuMemAdvise(a->address + from, to - from, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
	                   CU_DEVICE_CPU);
	driver.cuMemAdvise(a->address + from, to - from, CU_MEM_ADVISE_UNSET_ACCESSED_BY,
	                   a->context.device->handle);
}

void managed_made(CUdeviceptr address, size_t size)
{
	struct context context;
	struct allocation *a;
	uint64_t charged;

	if (!context_current(&context))
		return;
	charged = charge_what_fits(context.device, rounded(size));
	a = allocation_create(&context, address, size, SEGMENT_ON_DEVICE, charged);
	if (!a) {
		device_uncharge(context.device, SEGMENT_ON_DEVICE, charged);
		return;
	}
	a->is_managed = true;
	if (charged < size)
		keep_on_host(a, charged);
	if (allocation_enter(a) != 0)
		resource_release(&a->resource); /* gives it back */
}

size_t managed_may_come(CUdeviceptr address, size_t size)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is charged */
	struct allocation *a = allocation_managed_at(address);
	uint64_t from, to, may;

	if (!a)
		return size;
	pthread_mutex_lock(&lock);
	from = address - a->address;
	to = size < a->size - from ? from + size : a->size;
	if (rounded(to) > a->charged) {
		uint64_t before = a->charged;
		uint64_t more = charge_what_fits(a->context.device, rounded(to) - before);

		a->charged = before + more;
		if (more && before < a->size)
			let_come(a, before, a->charged);
	}
	may = a->charged >= to ? size : a->charged > from ? a->charged - from : 0;
	pthread_mutex_unlock(&lock);
	resource_release(&a->resource);
	return may;
}
