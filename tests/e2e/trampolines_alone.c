/* SPDX-License-Identifier: MIT */
/*
 * The symbols that shim/trampolines.S needs to lead to a driver, without the rest of the shim. It
 * is for a machine that enforces landing pads, which a distribution's start files and archives may
 * lack. Every entry point is hooked, by the driver's own function. ECHO_DRIVER names the driver's
 * file.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static const char *const names[] = {
#define FUNCTION(symbol, class, action) #symbol,
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
};
enum { COUNT = sizeof(names) / sizeof(*names) };

/* As trampolines.S knows them, not as shim.h does. */
extern void *shim_target[];
extern const char shim_guards[][64];
void *shim_real[COUNT], *shim_hook[COUNT];
uintptr_t shim_inside[4]; /* nobody's code */
void *shim_real_dlopen, *shim_real_dlmopen;
const char *shim_dlopen_file(const char *file);
const char *shim_dlmopen_file(long space, const char *file);
void *shim_resolve(uint32_t entry);
void *shim_resolve_unlisted(const int32_t *function);

const char *shim_dlopen_file(const char *file)
{
	shim_real_dlopen = dlsym(RTLD_NEXT, "dlopen");
	return file;
}

const char *shim_dlmopen_file(long space, const char *file)
{
	(void)space;
	shim_real_dlmopen = dlsym(RTLD_NEXT, "dlmopen");
	return file;
}

void *shim_resolve(uint32_t entry)
{
	void *driver = dlopen(getenv("ECHO_DRIVER"), RTLD_NOW);

	for (int i = 0; i < COUNT; i++) {
		shim_real[i] = dlsym(driver, names[i]);
		shim_hook[i] = shim_real[i];
		shim_target[i] = (void *)shim_guards[i];
	}
	return shim_target[entry];
}

/* A function of the companion library; the first word of its record leads to the name. */
void *shim_resolve_unlisted(const int32_t *function)
{
	return dlsym(dlopen(getenv("ECHO_DRIVER"), RTLD_NOW), (const char *)function + *function);
}
