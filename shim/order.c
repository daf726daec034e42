/* SPDX-License-Identifier: MIT */
/*
 * The libraries before us in the loader's order. LD_PRELOAD comes before /etc/ld.so.preload, and a
 * program that is linked to the driver calls the library it names: the driver itself, for example,
 * or an older Spillway. Where the machine's file is enforced such a program is not run, because
 * none of its calls would be ours to refuse.
 *
 * Runs in every process of the machine, before main, and is all that does. Nearly always no library
 * stands before us, and it follows two pointers.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/config/config.h"
#include "shim/driver_open.h"
#include "shim/real_dlopen.h"

enum { NOT_RUN = 127 }; /* as where the loader refuses */

/* Returns whether both are files of one folder, as the libraries of one installation are. */
static bool lies_beside(const char *one, const char *other)
{
	const char *slash = strrchr(one, '/');
	size_t length = slash ? (size_t)(slash - one) + 1 : 0;

	return length && strncmp(one, other, length) == 0 && !strchr(other + length, '/');
}

/* Returns the library whose cuInit the program calls, NULL: ours. */
static const struct link_map *first_driver(const struct link_map *ours)
{
	struct link_map *map = NULL;
	void *all, *first;
	Dl_info info;

	shim_find_real_dlopen();
	all = real_dlopen(NULL, RTLD_LAZY); /* by RTLD_DEFAULT we find ourselves first */
	first = all ? dlsym(all, "cuInit") : NULL;
	/* dladdr1() looks at all symbols, of which we have many */
	if (!first || driver_code(first).start == driver_code((void *)first_driver).start ||
	    !dladdr1(first, &info, (void **)&map, RTLD_DL_LINKMAP) ||
	    lies_beside(ours->l_name, map->l_name))
		map = NULL;
	if (all)
		dlclose(all);
	return map;
}

/* The program itself and the kernel's part have no path. */
static bool order_is_library(const struct link_map *map)
{
	return map && strchr(map->l_name, '/');
}

static __attribute__((constructor)) void look_who_is_first(void)
{
	const struct link_map *ours = _r_debug.r_map, *first;

	while (ours && ours->l_ld != _DYNAMIC)
		ours = ours->l_next;
	if (!ours || !order_is_library(ours->l_prev))
		return;
	first = first_driver(ours);
	if (!first || !config_machine()->enforces)
		return;
	log_error(
	    "%s comes before Spillway, as LD_PRELOAD may say, and has the driver's functions; "
	    "the program is not run, because " CONFIG_SYSTEM_FILE " is enforced",
	    first->l_name);
	_exit(NOT_RUN);
}
