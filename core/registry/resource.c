/* SPDX-License-Identifier: MIT */
/* Resources: counted references, and the meaning of a type's name. */
#include "core/base/hash.h"
#include "core/registry/resource.h"

struct resource *resource_hold(struct resource *resource)
{
	atomic_fetch_add_explicit(&resource->references, 1, memory_order_relaxed);
	return resource;
}

bool resource_hold_if_alive(struct resource *resource)
{
	uint32_t references = atomic_load_explicit(&resource->references, memory_order_relaxed);

	while (references > 0)
		if (atomic_compare_exchange_weak_explicit(&resource->references, &references,
		                                          references + 1, memory_order_relaxed,
		                                          memory_order_relaxed))
			return true;
	return false;
}

void resource_release(struct resource *resource)
{
	/* acq_rel: the thread that destroys sees the writes of all other holders */
	if (resource &&
	    atomic_fetch_sub_explicit(&resource->references, 1, memory_order_acq_rel) == 1)
		resource->type->destroy(resource);
}

uint64_t registry_type_hash(const char *type_name)
{
	return hash_text(HASH_NOTHING, type_name);
}
