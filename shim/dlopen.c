/*
 * dlopen by path: a program that opens the driver's file itself gets the shim.
 *
 * By SONAME glibc already answers with the shim; this is for those who scan folders and open what
 * they find. Every other name goes through untouched, by a jump in trampolines.S that keeps the
 * caller's return address, by which glibc finds the caller's RUNPATH.
 *
 * Rules: called at any time by anyone, before constructors, in set-uid processes; allocates
 * nothing.
 */
#include "shim/shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/driver_library.h"

void *(*shim_real_dlopen)(const char *file, int mode);

static void *no_dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

/* Every caller finds the same address, so a race is harmless. */
void shim_find_real_dlopen(void)
{
	void *real = __atomic_load_n((void **)&shim_real_dlopen, __ATOMIC_RELAXED);

	if (!real) {
		real = dlsym(RTLD_NEXT, "dlopen");
		__atomic_store_n((void **)&shim_real_dlopen, real ? real : (void *)no_dlopen,
		                 __ATOMIC_RELAXED);
	}
}

/* "libcuda.so", "libcuda.so.1" and "libcuda.so.580.65.06", as drivers are installed. */
static bool is_driver_file_name(const char *name)
{
	static const char stem[] = "libcuda.so";
	const char *rest = name + sizeof(stem) - 1;

	if (strncmp(name, stem, sizeof(stem) - 1) != 0)
		return false;
	return *rest == '\0' || (*rest == '.' && rest[1] >= '0' && rest[1] <= '9' &&
	                         rest[strspn(rest, ".0123456789")] == '\0');
}

const char *shim_dlopen_file(const char *file)
{
	int saved = errno;
	const char *slash;

	shim_find_real_dlopen();
	slash = file ? strrchr(file, '/') : NULL;
	if (file && is_driver_file_name(slash ? slash + 1 : file) && !shim_is_disabled()) {
		if (!slash) {
			/* Answered by SONAME. Who opens the driver may look its symbols up next. */
			shim_attach(NULL);
		} else if (access(file, R_OK) == 0) {
			/* A file that is not there fails as it would without us. */
			shim_attach(file);
			file = DRIVER_LIBRARY;
		}
	}
	errno = saved;
	return file;
}
