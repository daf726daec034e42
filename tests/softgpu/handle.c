/* The table of live objects, so that a wrong handle is an error and not a crash. */
#include "tests/softgpu/driver.h"

static struct handle *handles;

bool handle_add(struct handle *handle, enum handle_kind kind)
{
	handle->kind = kind;
	handle->key = handle;
	HASH_ADD_PTR(handles, key, handle);
	return handle->hh.tbl != NULL;
}

void handle_remove(struct handle *handle)
{
	HASH_DEL(handles, handle);
}

void *handle_find(const void *pointer, enum handle_kind kind)
{
	struct handle *handle;
	HASH_FIND_PTR(handles, &pointer, handle);
	return handle && handle->kind == kind ? handle : NULL;
}
