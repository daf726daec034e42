/* SPDX-License-Identifier: MIT */
/*
 * Keys of exported and imported memory. Rules: runs inside the user's process, within its calls and
 * on the server's thread.
 */
#include "core/budget/exported.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/base/lock.h"

struct exported {
	CUmemGenericAllocationHandle handle; /* the driver's */
	uint64_t key;
	UT_hash_handle hh;
};

struct imported {
	uint64_t key;
	uint64_t bytes;
	unsigned int count; /* how often the process has it open */
	UT_hash_handle hh;
};

static LOCK_OF(EXPORTED) lock = LOCK_FREE;
static struct exported *by_handle;
static struct imported *by_key;
static _Atomic size_t exported_count; /* mostly zero */

/* --- memory of this process --- */

uint64_t exported_as(const struct device *device, uint64_t bytes)
{
	return device->is_in_books ? segment_export(device->segment, device->index, bytes) : 0;
}

/* Enters a handle; with the lock held. Returns its key, or 0. */
static uint64_t exported_do_enter(const struct device *device, CUmemGenericAllocationHandle handle,
                                  uint64_t bytes)
{
	struct exported *e = calloc(1, sizeof(*e));

	if (!e)
		return 0;
	e->handle = handle;
	e->key = exported_as(device, bytes);
	if (e->key)
		HASH_ADD(hh, by_handle, handle, sizeof(e->handle), e);
	if (!e->key || !e->hh.tbl) {
		free(e);
		return 0;
	}
	exported_count++;
	return e->key;
}

uint64_t exported_enter(const struct device *device, CUmemGenericAllocationHandle handle,
                        uint64_t bytes)
{
	struct exported *e;
	uint64_t key;

	lock_acquire(&lock);
	HASH_FIND(hh, by_handle, &handle, sizeof(handle), e);
	key = e ? e->key : exported_do_enter(device, handle, bytes);
	lock_release(&lock);
	return key;
}

uint64_t exported_take(CUmemGenericAllocationHandle handle)
{
	struct exported *e;
	uint64_t key = 0;

	if (!atomic_load_explicit(&exported_count, memory_order_relaxed))
		return 0;
	lock_acquire(&lock);
	HASH_FIND(hh, by_handle, &handle, sizeof(handle), e);
	if (e) {
		key = e->key;
		HASH_DEL(by_handle, e);
		exported_count--;
		free(e);
	}
	lock_release(&lock);
	return key;
}

void exported_mark(const struct device *device, int descriptor, uint64_t key, uint64_t bytes)
{
	if (device->is_in_books)
		segment_tag(device->segment, descriptor, key, bytes);
}

/* --- memory of other processes --- */

/* Counts an import; with the lock held. Returns whether the process has it open from now on. */
static bool count_import(struct device *device, uint64_t key)
{
	struct imported *i;

	HASH_FIND(hh, by_key, &key, sizeof(key), i);
	if (!i) {
		i = calloc(1, sizeof(*i));
		if (!i)
			return false;
		i->key = key;
		HASH_ADD(hh, by_key, key, sizeof(i->key), i);
		if (!i->hh.tbl || !segment_import(device->segment, key)) {
			if (i->hh.tbl)
				HASH_DEL(by_key, i);
			free(i);
			return false;
		}
		i->bytes = segment_exported_bytes(device->segment, key);
		atomic_fetch_add(&device->imported, i->bytes);
	}
	i->count++;
	return true;
}

static struct import import_by(struct device *device, uint64_t key, uint64_t bytes)
{
	struct import import = {.bytes = bytes};
	bool is_known;

	lock_acquire(&lock);
	is_known = count_import(device, key);
	lock_release(&lock);
	if (is_known)
		import = (struct import){.key = key};
	return import;
}

struct import imported_read(struct device *device, int descriptor)
{
	struct segment_tag tag;

	if (!device->is_in_books)
		return (struct import){0};
	tag = segment_read_tag(descriptor);
	if (tag.key && !tag.bytes)
		return (struct import){.is_weightless = true};
	return tag.key ? import_by(device, tag.key, tag.bytes) : (struct import){0};
}

struct import imported_read_name(struct device *device, const void *name, size_t size)
{
	uint64_t key = device->is_in_books ? segment_exported_as(device->segment, name, size) : 0;

	return key ? import_by(device, key, 0) : (struct import){0};
}

void imported_leave(struct device *device, uint64_t key)
{
	struct imported *i;
	bool was_last;

	lock_acquire(&lock);
	HASH_FIND(hh, by_key, &key, sizeof(key), i);
	was_last = i && --i->count == 0;
	if (was_last) {
		HASH_DEL(by_key, i);
		segment_import_left(device->segment, key);
		atomic_fetch_sub(&device->imported, i->bytes);
		free(i);
	}
	lock_release(&lock);
}
