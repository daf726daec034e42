/* SPDX-License-Identifier: MIT */
/*
 * Looking up many at once: the lines that will be touched are asked for before the first of them is
 * needed, and the lock is taken anew for each batch.
 */
#include "core/base/lock.h"
#include "core/registry/registry.h"
#include "core/registry/registry_private.h"

/* Finds n resources, at most LOOKUP_BATCH; with the lock held. */
static size_t find_batch(struct registry *registry, const char *container_name,
                         const struct resource_type *type, const struct resource_name *names,
                         size_t n, struct resource **found)
{
	const struct container *container = registry_find_container(registry, container_name);
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (names[i].is_address)
			address_table_expect(&registry->addresses, names[i].address);
	for (size_t i = 0; i < n; i++)
		if (names[i].is_address)
			address_table_expect_resource(&registry->addresses, names[i].address);
	for (size_t i = 0; i < n; i++) {
		found[i] = container ? container_find(container, type, &names[i]) : NULL;
		if (found[i])
			resource_hold(found[i]);
		count += found[i] != NULL;
	}
	return count;
}

/* Looks up by texts, or where there are none by addresses. */
static size_t look_up(struct registry *registry, const char *container,
                      const struct resource_type *type, const char *const *texts,
                      const uint64_t *addresses, size_t n, struct resource **found)
{
	struct resource_name batch[LOOKUP_BATCH];
	size_t count = 0;

	for (size_t done = 0; done < n; done += LOOKUP_BATCH) {
		size_t size = n - done < LOOKUP_BATCH ? n - done : LOOKUP_BATCH;
		for (size_t i = 0; i < size; i++)
			batch[i] = texts ? name_from_text(texts[done + i])
			                 : name_from_address(addresses[done + i]);
		lock_acquire(&registry->lock);
		count += find_batch(registry, container, type, batch, size, found + done);
		lock_release(&registry->lock);
	}
	return count;
}

size_t registry_lookup_many(struct registry *registry, const char *container,
                            const struct resource_type *type, const char *const *names, size_t n,
                            struct resource **found)
{
	return look_up(registry, container, type, names, NULL, n, found);
}

size_t registry_lookup_objects(struct registry *registry, const char *container,
                               const struct resource_type *type, const uint64_t *objects, size_t n,
                               struct resource **found)
{
	return look_up(registry, container, type, NULL, objects, n, found);
}
