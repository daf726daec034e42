/* The view of an arena. Rules: runs inside the user's process, with the arena's lock held while it is looked at. */
#include "core/memory/arena/arena_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/lock.h"

struct arena_view {
	struct lookup_table table;
	struct arena *arena;
};

static struct arena *arena_of_view(struct lookup_table *table)
{
	return ((struct arena_view *)table)->arena;
}

static bool view_find(struct lookup_table *table, uint64_t key, void *value)
{
	const struct arena *arena = arena_of_view(table);
	struct chunk_view *view = value;
	const struct unit *unit;

	if (key - arena->base >= arena->size)
		return false;
	unit = arena_unit(arena, key);
	if (unit->kind == UNIT_FREE)
		return false;
	while (!unit->units && unit > arena->units) /* the chunk's first one says it */
		unit--;
	*view = (struct chunk_view){.address =
	                                arena->base + (uint64_t)(unit - arena->units) * ARENA_UNIT,
	                            .bytes = unit->units * ARENA_UNIT,
	                            .kind = unit->kind,
	                            .side = unit->side,
	                            .pins = unit->pins};
	return true;
}

/* Chunks. */
static size_t view_count(struct lookup_table *table)
{
	const struct arena *arena = arena_of_view(table);
	size_t count = 0;

	for (uint32_t i = 0; i < arena->top; i++)
		count += arena->units[i].kind != UNIT_FREE && arena->units[i].units;
	return count;
}

static void view_begin(struct lookup_table *table)
{
	lock_acquire(&arena_of_view(table)->lock);
}

static void view_end(struct lookup_table *table)
{
	lock_release(&arena_of_view(table)->lock);
}

static void view_describe(const struct resource *resource, char *buf, size_t size)
{
	struct lookup_table *table = (struct lookup_table *)(uintptr_t)resource;

	snprintf(buf, size, "%zu chunks in %" PRIu64 " bytes of addresses",
	         lookup_table_count(table), arena_of_view(table)->size);
}

static void view_destroy(struct resource *resource)
{
	free(resource);
}

const struct resource_type arena_view_type = {
    .name = "arena_view", .describe = view_describe, .destroy = view_destroy};

struct lookup_table *arena_view_create(struct arena *arena)
{
	static const struct lookup_table_kind kind = {
	    .find = view_find, .count = view_count, .begin = view_begin, .end = view_end};
	struct arena_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	resource_init(&view->table.resource, &arena_view_type);
	view->table.kind = &kind;
	view->table.value_size = sizeof(struct chunk_view);
	view->arena = arena;
	return &view->table;
}

void arena_view_register(struct arena *arena)
{
	struct lookup_table *view = arena_view_create(arena);

	if (view && registry_add(arena->device->registry, NULL, "arena", &view->resource) != 0)
		resource_release(&view->resource);
}
