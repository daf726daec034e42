/* SPDX-License-Identifier: MIT */
/* Owners of objects. */
#include "shim/owner.h"

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/job.h"

uint64_t owner_of(const struct resource_type *type, uint64_t object)
{
	KEEP_ERRNO;
	struct resource *found = job_is_active() ? context_find_object(type, object) : NULL;
	uint64_t owner = found ? object_owner(found) : 0;

	resource_release(found);
	return owner ? owner : object;
}
