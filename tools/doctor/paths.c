/* SPDX-License-Identifier: MIT */
/* Where the shim, the software GPU and programs lie. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/driver_library.h"
#include "core/base/file_status.h"
#include "tools/doctor/paths.h"

#if defined(__x86_64__)
#define MULTIARCH_FOLDER "../lib/x86_64-linux-gnu/spillway"
#else
#define MULTIARCH_FOLDER "../lib/aarch64-linux-gnu/spillway"
#endif

/* From the folder of the executable: in the build tree, then as installed with each usual libdir.
 */
static const char *const folders[] = {
    "lib", "../lib/spillway", "../lib64/spillway", MULTIARCH_FOLDER, NULL,
};

static bool own_folder(char folder[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	if (length < 0)
		return false;
	folder[length] = '\0';
	slash = strrchr(folder, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/* Finds PATH below the tool's own folder, made absolute, if it is there. */
static bool beside_tool(const char *folder, const char *file, char found[PATH_MAX])
{
	char own[PATH_MAX], path[3 * PATH_MAX], absolute[PATH_MAX];

	if (!own_folder(own))
		return false;
	snprintf(path, sizeof path, "%s/%s", own, folder);
	if (!realpath(path, absolute))
		return false;
	/* The file's own symlink stays: the loader finds libcuda.so.1 by that name. */
	if (snprintf(found, PATH_MAX, "%s/%s", absolute, file) >= PATH_MAX)
		return false;
	return access(found, R_OK) == 0;
}

bool paths_is_2_34(const char *version)
{
	int major, minor;

	return sscanf(version, "%d.%d", &major, &minor) == 2 &&
	       (major > 2 || (major == 2 && minor >= 34));
}

bool paths_is_shim(const char *path)
{
	return strcmp(paths_base(path), SHIM_LIBRARY) == 0 ||
	       strcmp(paths_base(path), SHIM_OF_2_34) == 0;
}

bool paths_shim(struct paths *paths, char *message, size_t size)
{
	char own[PATH_MAX] = "?", other[PATH_MAX];

	for (const char *const *folder = folders; *folder; folder++) {
		if (!beside_tool(*folder, SHIM_LIBRARY, paths->shim) ||
		    !beside_tool(*folder, "libspillway-alias.so", paths->alias))
			continue;
		if (paths_is_2_34(gnu_get_libc_version()) &&
		    beside_tool(*folder, SHIM_OF_2_34, other))
			strcpy(paths->shim, other);
		if (!strpbrk(paths->shim, ": "))
			return true;
		snprintf(message, size,
		         "%s: LD_PRELOAD cannot hold a path with a space or a colon; "
		         "move or install Spillway elsewhere",
		         paths->shim);
		return false;
	}
	own_folder(own);
	snprintf(message, size,
	         "libspillway.so and libspillway-alias.so are neither in %s/lib nor in "
	         "%s/../lib/spillway; build or install Spillway completely",
	         own, own);
	return false;
}

bool paths_softgpu(char folder[PATH_MAX], char driver[PATH_MAX], char *message, size_t size)
{
	char own[PATH_MAX] = "?", within[PATH_MAX];

	for (const char *const *shim = folders; *shim; shim++) {
		/* beside the tool in the build tree, in the shim's folder as installed */
		if (shim == folders)
			snprintf(within, sizeof within, "softgpu");
		else
			snprintf(within, sizeof within, "%s/softgpu", *shim);
		if (!beside_tool(within, "libcuda.so.1", driver))
			continue;
		strcpy(folder, driver);
		*strrchr(folder, '/') = '\0';
		return true;
	}
	own_folder(own);
	snprintf(message, size,
	         "the software GPU is neither in %s/softgpu nor in %s/../lib/spillway/softgpu; "
	         "build or install Spillway completely",
	         own, own);
	return false;
}

static bool is_program(const char *path)
{
	struct stat status;

	if (file_status(path, &status) != 0)
		return false;
	if (S_ISREG(status.st_mode) && access(path, X_OK) == 0)
		return true;
	errno = EACCES;
	return false;
}

const char *paths_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool paths_program(const char *program, char found[PATH_MAX])
{
	const char *search = getenv("PATH");
	int reason = ENOENT;

	if (strchr(program, '/')) {
		snprintf(found, PATH_MAX, "%s", program);
		return is_program(found);
	}
	for (const char *next = search ? search : PATHS_DEFAULT; next;) {
		size_t length = strcspn(next, ":");

		/* An empty entry is the current folder. */
		snprintf(found, PATH_MAX, "%.*s/%s", length ? (int)length : 1, length ? next : ".",
		         program);
		if (is_program(found))
			return true;
		if (errno == EACCES)
			reason = EACCES;
		next = next[length] ? next + length + 1 : NULL;
	}
	errno = reason;
	return false;
}

bool paths_bundled(char folder[PATH_MAX])
{
	static const char *const places[] = {"clients", "../lib/spillway/try"};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (beside_tool(places[i], ".", folder)) {
			*strrchr(folder, '/') = '\0';
			return true;
		}
	return false;
}

const char *paths_try(const char *program, char found[PATH_MAX])
{
	char folder[PATH_MAX];

	if (strchr(program, '/') || paths_program(program, found) || !paths_bundled(folder))
		return program;
	snprintf(found, PATH_MAX, "%.*s/%s", PATH_MAX / 2, folder, program);
	return access(found, X_OK) == 0 ? found : program;
}
