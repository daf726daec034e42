/* SPDX-License-Identifier: MIT */
/*
 * dlopen and dlmopen: a program that opens the driver's file itself gets the shim.
 *
 * By SONAME glibc already answers "libcuda.so.1" with the shim; this is for programs that scan
 * folders and open each driver they find, by any name or descriptor. Every other file goes through
 * untouched, by a jump in trampolines.S that keeps the caller's return address, by which glibc
 * finds the caller's RUNPATH.
 *
 * Rules: called at any time by anyone, before constructors, in set-uid processes.
 */
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#include "core/base/driver_library.h"
#include "core/base/log.h"
#include "shim/attach.h"
#include "shim/disabled.h"
#include "shim/nvml.h"
#include "shim/real_dlopen.h"

/*
 * Returns the file that shall be opened instead of `file`, mostly `file` itself. Called by
 * trampolines.S.
 */
const char *shim_dlopen_file(const char *file, int mode, const struct trampolines *trampolines);
const char *shim_dlmopen_file(Lmid_t namespace, const char *file, int mode,
                              const struct trampolines *trampolines);

/* The user's file has a hash behind the name: libspillway-companion-HASH.so. */
static int dlopen_look_at(struct dl_phdr_info *library, size_t size, void *cookie)
{
	const char *slash = library->dlpi_name ? strrchr(library->dlpi_name, '/') : NULL;
	bool *is_found = cookie;

	(void)size;
	*is_found =
	    slash && strncmp(slash + 1, COMPANION_LIBRARY, strcspn(COMPANION_LIBRARY, ".")) == 0;
	return *is_found;
}

/*
 * Returns the companion library where it is preloaded, else the file. It needs the shim, so by its
 * handle dlsym() finds the functions of both. The loader is not asked: with RTLD_NOLOAD, too, it
 * searches all folders for a library that is not there, by 90 system calls.
 */
static const char *companion_or(const char *file)
{
	bool is_found = false;

	dl_iterate_phdr(dlopen_look_at, &is_found);
	return is_found ? COMPANION_LIBRARY : file;
}

/* Returns whether glibc answers the name by SONAME, with the shim or its alias. */
static bool is_soname(const char *file)
{
	return strcmp(file, DRIVER_LIBRARY) == 0 || strcmp(file, "libcuda.so") == 0;
}

/*
 * Returns the file to open instead. A file that is not there, or is no library, is left to fail as
 * it would without us.
 */
static const char *dlopen_exchange(const char *file, const struct trampolines *trampolines)
{
	char path[PATH_MAX];

	if (is_soname(file)) {
		/* A program that opens the driver may look its symbols up next. */
		shim_attach(NULL, trampolines);
		return companion_or(DRIVER_LIBRARY);
	} else if (driver_library_locate(file, path, sizeof(path))) {
		shim_attach(path, trampolines);
		return companion_or(DRIVER_LIBRARY);
	}
	return file;
}

static const char *file_in(Lmid_t namespace, const char *file, int mode,
                           const struct trampolines *trampolines)
{
	int saved = errno;

	if (file && driver_library_is_asked(file) && !shim_is_disabled()) {
		if (namespace == LM_ID_BASE)
			file = dlopen_exchange(file, trampolines);
		else
			log_once(LOG_WARNING,
			         "dlmopen(%s): a driver in a namespace of its own is out of reach: "
			         "calls through it are neither limited nor counted",
			         file);
	} else if (namespace == LM_ID_BASE) {
		file = file && is_soname(file) ? companion_or(file) : shim_nvml_file(file, mode);
	}
	errno = saved;
	return file;
}

const char *shim_dlopen_file(const char *file, int mode, const struct trampolines *trampolines)
{
	shim_find_real_dlopen();
	return file_in(LM_ID_BASE, file, mode, trampolines);
}

const char *shim_dlmopen_file(Lmid_t namespace, const char *file, int mode,
                              const struct trampolines *trampolines)
{
	shim_find_real_dlopen();
	shim_find_real_dlmopen();
	return file_in(namespace, file, mode, trampolines);
}
