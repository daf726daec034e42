/* Where the driver library is. Rules: runs inside the user's process too. */
#include "core/base/driver_library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_status.h"
#include "core/base/loader_cache.h"

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#endif

static const char *const usual_folders[] = {
    "/usr/lib/" MULTIARCH,
    "/lib/" MULTIARCH,
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
};

struct search {
	const char *not_this;
	char *path;
	size_t size;
};

static bool is_same_file(const struct stat *one, const char *path)
{
	struct stat other;

	return path && file_status(path, &other) == 0 && one->st_ino == other.st_ino &&
	       one->st_dev == other.st_dev;
}

/* Takes the file when it can be the driver; as an absolute path. */
static bool accept(void *cookie, const char *path)
{
	struct search *s = cookie;
	char absolute[PATH_MAX];
	struct stat status;
	int n;

	if (file_status(path, &status) != 0 || !S_ISREG(status.st_mode) ||
	    is_same_file(&status, s->not_this))
		return false;
	if (path[0] != '/') {
		if (!realpath(path, absolute))
			return false;
		path = absolute;
	}
	n = snprintf(s->path, s->size, "%s", path);
	return n > 0 && (size_t)n < s->size;
}

static bool accept_in(struct search *s, const char *folder, size_t length)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%.*s/" DRIVER_LIBRARY, (int)length, folder);

	return length && n > 0 && (size_t)n < sizeof(path) && accept(s, path);
}

static bool accept_in_list(struct search *s, const char *folders)
{
	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (accept_in(s, folders, length))
			return true;
		folders += length;
		folders += *folders != '\0';
	}
	return false;
}

bool driver_library_find(const char *not_this, const char *asked, char *path, size_t size,
                         const char **from, bool *named_is_bad)
{
	struct search s = {not_this, path, size};
	const char *named = secure_getenv("SPILLWAY_DRIVER");

	*named_is_bad = false;
	*from = "SPILLWAY_DRIVER";
	if (named && *named) {
		if (named[0] == '/' && accept(&s, named))
			return true;
		*named_is_bad = true;
	}
	*from = "the path the program named";
	if (asked && accept(&s, asked))
		return true;
	*from = "LD_LIBRARY_PATH";
	if (accept_in_list(&s, secure_getenv("LD_LIBRARY_PATH")))
		return true;
	*from = "/etc/ld.so.cache";
	if (loader_cache_find(DRIVER_LIBRARY, accept, &s))
		return true;
	*from = "a usual place";
	for (size_t i = 0; i < sizeof(usual_folders) / sizeof(*usual_folders); i++) {
		if (accept_in(&s, usual_folders[i], strlen(usual_folders[i])))
			return true;
	}
	*from = "SPILLWAY_DRIVER, LD_LIBRARY_PATH, /etc/ld.so.cache and the usual places";
	return false;
}
