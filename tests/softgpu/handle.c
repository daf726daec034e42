/* SPDX-License-Identifier: MIT */
/*
 * The table of live objects, so that a wrong handle is an error and not a crash. The last objects
 * that died are kept for a while: their addresses are not used again at once, and a call that uses
 * one gets an error.
 */
#include "tests/softgpu/driver.h"

#include <stdlib.h>

#define KEPT 1024

static struct handle *handles;

static struct {
	const void *key;
	enum handle_kind kind;
} gone[KEPT];
static size_t next_gone;

static void *kept[KEPT];
static size_t next_kept;

bool handle_add(struct handle *handle, enum handle_kind kind)
{
	handle->kind = kind;
	handle->key = handle;
	HASH_ADD_PTR(handles, key, handle);
	return handle->hh.tbl != NULL;
}

void handle_remove(struct handle *handle)
{
	gone[next_gone % KEPT].key = handle;
	gone[next_gone++ % KEPT].kind = handle->kind;
	HASH_DEL(handles, handle);
}

void handle_free(void *object)
{
	free(kept[next_kept % KEPT]);
	kept[next_kept++ % KEPT] = object;
}

static void report_stale(const void *pointer, enum handle_kind kind)
{
	static const char *const names[] = {
	    [HANDLE_STREAM] = "stream", [HANDLE_EVENT] = "event",
	    [HANDLE_MODULE] = "module", [HANDLE_POOL] = "memory pool",
	    [HANDLE_GRAPH] = "graph",   [HANDLE_GRAPH_EXEC] = "executable graph",
	    [HANDLE_ARRAY] = "array",   [HANDLE_MIPMAPPED_ARRAY] = "mipmapped array",
	};
	if ((size_t)kind >= sizeof(names) / sizeof(names[0]) || !names[kind])
		return;
	for (size_t i = 0; i < KEPT; i++) {
		if (gone[i].key == pointer && gone[i].kind == kind) {
			say("%s %p is used after it was destroyed", names[kind], pointer);
			return;
		}
	}
}

void *handle_find(const void *pointer, enum handle_kind kind)
{
	struct handle *handle;
	HASH_FIND_PTR(handles, &pointer, handle);
	if (handle && handle->kind == kind)
		return handle;
	if (pointer && !handle)
		report_stale(pointer, kind);
	return NULL;
}
