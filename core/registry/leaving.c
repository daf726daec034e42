/* SPDX-License-Identifier: MIT */
/* Leaving: what is known while the driver is asked to let an object go. */
#include "core/base/lock.h"
#include "core/registry/registry.h"
#include "core/registry/registry_private.h"

/*
 * Counts one call more, or fewer, that asks the driver to destroy the resource; under the lock,
 * which all who change the count hold: it is read without.
 */
static void mark(struct resource *resource, uint32_t change)
{
	uint32_t leaving = atomic_load_explicit(&resource->leaving, memory_order_relaxed);

	atomic_store_explicit(&resource->leaving, leaving + change, memory_order_relaxed);
}

struct leaving registry_leave(struct registry *registry, uint64_t object, struct resource *found)
{
	struct leaving leaving = {registry, found, object, 0, SIZE_MAX};

	if (!found)
		return leaving;
	lock_acquire(&registry->lock);
	mark(found, 1);
	leaving.entry = found->entry;
	lock_release(&registry->lock);
	return leaving;
}

bool registry_leave_object(struct registry *registry, const char *preferred,
                           const struct resource_type *type, uint64_t object, bool holds,
                           struct leaving *leaving)
{
	lock_acquire(&registry->lock);
	const struct address_entry *entry = registry_find_any(registry, preferred, type, object);
	struct resource *found = entry ? entry->resource : NULL;
	if (found && resource_is_leaving(found))
		found = NULL;
	leaving->registry = registry;
	leaving->resource = found;
	leaving->object = object;
	if (found) {
		leaving->entry = found->entry;
		leaving->place = (size_t)(entry - registry->addresses.entry);
		mark(found, 1);
		if (holds)
			resource_hold(found);
	}
	lock_release(&registry->lock);
	return found;
}

/*
 * Takes out what left, found by the number of its entry, too: without a reference another resource
 * may be at its place in memory by now, and it is not touched before it is found.
 */
bool registry_left(const struct leaving *leaving, bool gone)
{
	struct registry *registry = leaving->registry;
	struct resource *taken = NULL;

	if (!leaving->resource)
		return false;
	lock_acquire(&registry->lock);
	struct address_entry *entry = address_table_find_resource(
	    &registry->addresses, leaving->object, leaving->place, leaving->resource);
	if (entry && entry->resource->entry == leaving->entry) {
		if (gone) /* nobody asks any more; who has a reference still sees that it went */
			taken = registry_take(registry, entry);
		else
			mark(entry->resource, (uint32_t)-1);
	}
	lock_release(&registry->lock);
	resource_release(taken);
	return taken;
}

uint64_t registry_entries(struct registry *registry)
{
	return atomic_load_explicit(&registry->addresses.entries, memory_order_relaxed);
}

struct resource *registry_take_before(struct registry *registry, const struct resource_type *type,
                                      uint64_t object, uint64_t entries)
{
	struct resource *taken = NULL;

	lock_acquire(&registry->lock);
	struct address_entry *entry =
	    address_table_find_before(&registry->addresses, type, object, entries);
	if (entry)
		taken = registry_take(registry, entry);
	lock_release(&registry->lock);
	return taken;
}
