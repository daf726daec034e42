/* SPDX-License-Identifier: MIT */
#include "tools/view/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cache_path(char path[PATH_MAX], const char *name)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool is_named = cache && *cache == '/';

	*path = '\0';
	if (!is_named && !(home && *home == '/'))
		return false;
	if (snprintf(path, PATH_MAX, "%s%s/spillway/%s", is_named ? cache : home,
	             is_named ? "" : "/.cache", name) < PATH_MAX)
		return true;
	*path = '\0';
	return false;
}

bool cache_make_folders(const char *path)
{
	char part[PATH_MAX];

	snprintf(part, sizeof part, "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) != 0 && errno != EEXIST)
			return false;
		*slash = '/';
	}
	return mkdir(part, 0755) == 0 || errno == EEXIST;
}
