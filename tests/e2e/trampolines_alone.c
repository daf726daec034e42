/*
 * What shim/trampolines.S needs to lead to a driver, without the rest of the shim: for a machine that enforces
 * landing pads, which a distribution's start files and archives may lack. Every entry point is hooked, by the
 * driver's own function. ECHO_DRIVER names the driver's file.
 */
#include "shim/shim.h"

#include <dlfcn.h>
#include <stdlib.h>

void *shim_real[ENTRY_COUNT];
void *shim_hook[ENTRY_COUNT];
struct code shim_inside[2];
void *(*shim_real_dlopen)(const char *file, int mode);
void *(*shim_real_dlmopen)(Lmid_t space, const char *file, int mode);

static const char *const names[] = {
#define FUNCTION(symbol, class, action) #symbol,
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
};

const char *shim_dlopen_file(const char *file)
{
	*(void **)&shim_real_dlopen = dlsym(RTLD_NEXT, "dlopen");
	return file;
}

const char *shim_dlmopen_file(Lmid_t space, const char *file)
{
	(void)space;
	*(void **)&shim_real_dlmopen = dlsym(RTLD_NEXT, "dlmopen");
	return file;
}

void *shim_resolve(uint32_t entry)
{
	void *driver = dlopen(getenv("ECHO_DRIVER"), RTLD_NOW);

	for (int i = 0; i < ENTRY_COUNT; i++) {
		shim_real[i] = dlsym(driver, names[i]);
		shim_hook[i] = shim_real[i];
		shim_target[i] = (void *)shim_guards[i];
	}
	return shim_target[entry];
}
