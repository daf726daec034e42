/* SPDX-License-Identifier: MIT */
/* The switch by which Spillway is left out. */
#include "shim/disabled.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/base/driver_library.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/config/config.h"
#include "shim/driver_open.h"
#include "shim/real_dlopen.h"
#include "shim/role.h"

/* Returns the name by which the library says it is known; NULL: by none. */
static const char *soname_of(const struct link_map *map)
{
	const char *texts = NULL;
	size_t at = 0;

	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			texts = (const char *)d->d_un.d_ptr;
		else if (d->d_tag == DT_SONAME)
			at = d->d_un.d_val;
	}
	return texts && at ? texts + at : NULL;
}

/*
 * Returns whether another Spillway comes first in the loader's order: the program calls that one,
 * and its requests to the loader are not to come back to it. Logs it once.
 */
static bool is_second(void)
{
	static _Atomic int known; /* 1: no, 2: yes */
	void *all, *first, *opener;
	struct link_map *map = NULL, *other = NULL;
	Dl_info info;
	const char *soname;
	bool is;

	if (atomic_load(&known))
		return atomic_load(&known) == 2;
	shim_find_real_dlopen();
	all = real_dlopen(NULL, RTLD_LAZY); /* by RTLD_DEFAULT we find ourselves first */
	first = all ? dlsym(all, "cuInit") : NULL;
	opener = all ? dlsym(all, "dlopen") : NULL;
	is = first && opener && driver_code(first).start != driver_code((void *)is_second).start &&
	     dladdr1(opener, &info, (void **)&other, RTLD_DL_LINKMAP) &&
	     dladdr1(first, &info, (void **)&map, RTLD_DL_LINKMAP) && map == other &&
	     (soname = soname_of(map)) && strcmp(soname, DRIVER_LIBRARY) == 0;
	if (is && atomic_exchange(&known, 2) != 2)
		log_warning("Spillway is preloaded twice: %s comes first and acts, another stands "
		            "aside; LD_PRELOAD and /etc/ld.so.preload may have one libspillway*.so "
		            "and libspillway-alias.so",
		            map->l_name);
	else if (!is)
		atomic_store(&known, 1);
	if (all)
		dlclose(all);
	return is;
}

/*
 * Returns whether nothing is to be hooked. In a set-uid process nothing is, either: its environment
 * is not to be trusted. Where the machine's file is enforced both take part, without an
 * environment: any user in two groups can make a program set-gid.
 */
bool shim_is_disabled(void)
{
	const char *value = secure_getenv("SPILLWAY_DISABLE");
	bool disabled = false;

	shim_take_role();
	if (config_machine()->enforces)
		return false;
	/* A value that is neither yes nor no is said when the configuration is read, at cuInit. */
	if (value)
		units_parse_bool(value, &disabled);
	return disabled || getauxval(AT_SECURE) || is_second();
}
