/* SPDX-License-Identifier: MIT */
/* Opens the real driver, by absolute path and so that its own calls do not come back to us. */
#include "shim/driver_open.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/driver_library.h"
#include "core/base/log.h"
#include "shim/real_dlopen.h"

/*
 * Does the library look up its own symbols in itself first? Else its internal calls would reach us.
 */
static bool binds_to_itself(void *handle)
{
	const struct link_map *map;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
		return false;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMBOLIC ||
		    (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_SYMBOLIC)))
			return true;
	}
	return false;
}

struct code_search {
	uintptr_t address;
	struct code found;
	const char *file; /* NULL: no library has the address */
};

static int look_for_code(struct dl_phdr_info *library, size_t size, void *cookie)
{
	struct code_search *s = cookie;

	(void)size;
	for (int i = 0; i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &library->dlpi_phdr[i];
		uintptr_t start = library->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && s->address - start < p->p_memsz)
			*s = (struct code_search){
			    s->address, {start, p->p_memsz}, library->dlpi_name};
	}
	return s->file != NULL;
}

/* Finds the library that has the address. dladdr() would look at all symbols of it. */
static struct code_search find_code(const void *address)
{
	struct code_search s = {.address = (uintptr_t)address};

	dl_iterate_phdr(look_for_code, &s);
	return s;
}

struct code driver_code(const void *address)
{
	return find_code(address).found;
}

/* Returns whether the library is this one, by where its cuInit is. */
static bool is_ourselves(void *handle)
{
	return driver_code(dlsym(handle, "cuInit")).start ==
	       driver_code((void *)is_ourselves).start;
}

static bool driver_open_find(const char *asked, char *path, size_t size)
{
	const char *from;
	bool named_is_bad, found;

	found = driver_library_find(find_code((void *)driver_open_find).file, asked, path, size,
	                            &from, &named_is_bad);
	if (named_is_bad)
		log_error("SPILLWAY_DRIVER = %s: expected the absolute path of a CUDA driver "
		          "library; looking in the usual places",
		          secure_getenv("SPILLWAY_DRIVER"));
	if (!found)
		log_warning("no CUDA driver (" DRIVER_LIBRARY ") on this machine: cuInit will "
		            "answer CUDA_ERROR_NO_DEVICE");
	return found;
}

void *driver_open(const char *asked, char *found, size_t size)
{
	void *handle;

	shim_find_real_dlopen();
	if (!driver_open_find(asked, found, size))
		return NULL;
	handle = real_dlopen(found, RTLD_NOW | RTLD_LOCAL);
	if (handle && !binds_to_itself(handle)) {
		dlclose(handle);
		handle = real_dlopen(found, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	}
	if (!handle) {
		log_error("%s", dlerror()); /* names the file */
		return NULL;
	}
	if (is_ourselves(handle)) {
		log_error("%s is Spillway itself, not a driver, or Spillway is preloaded twice: "
		          "LD_PRELOAD and /etc/ld.so.preload may have one libspillway*.so and "
		          "libspillway-alias.so",
		          found);
		dlclose(handle);
		return NULL;
	}
	return handle;
}
