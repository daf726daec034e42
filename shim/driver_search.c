/*
 * Finds the driver library the program would have got without us.
 *
 * Places, in order: SPILLWAY_DRIVER, LD_LIBRARY_PATH, /etc/ld.so.cache, the usual folders. The
 * loader's own search by name would find the shim, whose SONAME is the driver's; so it is opened by
 * absolute path. A set-uid process ignores the environment, as its loader does.
 */
#include "shim/shim.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "core/base/log.h"

static const char driver_name[] = "libcuda.so.1";

static const char *const usual_folders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu",
    "/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
};

/* Is it this very library, by whatever name? */
static bool is_ourselves(const char *path)
{
	struct stat theirs, ours;
	Dl_info self;

	return dladdr((void *)is_ourselves, &self) && stat(self.dli_fname, &ours) == 0 &&
	       stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

static bool is_candidate(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && !is_ourselves(path);
}

/* A relative folder means the one of the moment, to the loader and so to us. */
static bool search_list(const char *folders, char *path, size_t size)
{
	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (length) {
			int n = snprintf(path, size, "%.*s/%s", (int)length, folders, driver_name);

			if (n > 0 && (size_t)n < size && is_candidate(path))
				return true;
		}
		folders += length;
		folders += *folders != '\0';
	}
	return false;
}

static bool search(char *path, size_t size)
{
	bool secure = getauxval(AT_SECURE) != 0;
	const char *named = secure ? NULL : getenv("SPILLWAY_DRIVER");

	if (named && *named) {
		snprintf(path, size, "%s", named);
		if (path[0] == '/' && is_candidate(path))
			return true;
		log_error(
		    "SPILLWAY_DRIVER = %s: expected the absolute path of a CUDA driver library; "
		    "looking in the usual places",
		    named);
	}
	if (!secure && search_list(getenv("LD_LIBRARY_PATH"), path, size))
		return true;
	if (ld_cache_find(driver_name, path, size) && is_candidate(path))
		return true;
	for (size_t i = 0; i < sizeof(usual_folders) / sizeof(*usual_folders); i++) {
		snprintf(path, size, "%s/%s", usual_folders[i], driver_name);
		if (is_candidate(path))
			return true;
	}
	return false;
}

/* Does the library look up its own symbols in itself first? Else its internal calls would reach us.
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

void *driver_open(char *found, size_t size)
{
	char absolute[PATH_MAX];
	void *handle;

	shim_find_real_dlopen();
	if (!search(found, size)) {
		log_warning("no CUDA driver (%s) on this machine: cuInit will answer "
		            "CUDA_ERROR_NO_DEVICE",
		            driver_name);
		return NULL;
	}
	if (found[0] != '/' && realpath(found, absolute))
		snprintf(found, size, "%s", absolute);
	handle = shim_real_dlopen(found, RTLD_NOW | RTLD_LOCAL);
	if (handle && !binds_to_itself(handle)) {
		dlclose(handle);
		handle = shim_real_dlopen(found, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	}
	if (!handle) {
		log_error("%s: %s", found, dlerror());
		return NULL;
	}
	if (dlsym(handle, "cuInit") == (void *)cuInit) {
		log_error("%s is Spillway itself, not a driver", found);
		dlclose(handle);
		return NULL;
	}
	return handle;
}
