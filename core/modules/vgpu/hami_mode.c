/* SPDX-License-Identifier: MIT */
/* Standing in for HAMi-core. Rules: runs inside the user's process. */
#include "core/modules/vgpu/hami_mode.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config.h"

#define CACHE_VARIABLE "CUDA_DEVICE_MEMORY_SHARED_CACHE"

const char *hami_mode_proc = "/proc";

static char folder[PATH_MAX];
static _Atomic bool stands_in;

void hami_mode_begin(const char *of)
{
	if (atomic_load(&stands_in))
		return;
	snprintf(folder, sizeof(folder), "%s", of);
	atomic_store(&stands_in, true);
}

bool hami_mode_is(void)
{
	return atomic_load(&stands_in);
}

/* Variables by which containers are given limits: by HAMi and its kin, and by our devices. */
static const char *const of_hami[] = {
    "CUDA_DEVICE_MEMORY_", "CUDA_DEVICE_SM_LIMIT",  "CUDA_TASK_PRIORITY=",
    "CUDA_OVERSUBSCRIBE=", "CUDA_DISABLE_CONTROL=", "GPU_CORE_UTILIZATION_POLICY=",
    "SPILLWAY_MEMORY",     "SPILLWAY_SHARE",        NULL};
static const char *const of_device[] = {"SPILLWAY_MEMORY", "SPILLWAY_SHARE",
                                        "SPILLWAY_JOB=", "SPILLWAY_LABELS=", NULL};

static bool is_one_of(const char *variable, const char *const *beginnings)
{
	for (; *beginnings; beginnings++)
		if (strncmp(variable, *beginnings, strlen(*beginnings)) == 0)
			return strchr(variable, '=') != NULL;
	return false;
}

static bool hami_mode_has(char *const *environment, const char *variable)
{
	size_t length = strcspn(variable, "=") + 1;

	for (; *environment; environment++)
		if (strncmp(*environment, variable, length) == 0 && (*environment)[length])
			return true;
	return false;
}

/* Adds a copy of NAME=VALUE. Without memory for it nothing is added. */
static char **hami_mode_add(char **environment, const char *variable)
{
	size_t count = 0;
	char *copy = strdup(variable), **longer;

	while (environment[count])
		count++;
	longer = copy ? realloc(environment, (count + 2) * sizeof(*environment)) : NULL;
	if (!longer) {
		free(copy);
		return environment;
	}
	longer[count] = copy;
	longer[count + 1] = NULL;
	return longer;
}

/*
 * Reads the environment with which the container's first process was started; free it. NULL: not
 * readable.
 */
static char *read_first(size_t *length)
{
	enum { MOST = 256 << 10 };
	char path[PATH_MAX], *text = NULL;
	ssize_t got;
	int fd;

	*length = 0;
	snprintf(path, sizeof(path), "%s/1/environ", hami_mode_proc);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	text = malloc(MOST + 1);
	while (text && *length < MOST && (got = read(fd, text + *length, MOST - *length)) > 0)
		*length += (size_t)got;
	/* Each ends with a NUL, or the last of many was cut. */
	while (text && *length > 0 && text[*length - 1])
		--*length;
	if (text)
		text[*length] = '\0';
	close(fd);
	return text;
}

static bool hami_mode_is_limited(char *const *environment)
{
	static const char name[] = "CUDA_DEVICE_MEMORY_LIMIT";

	for (; *environment; environment++)
		if (strncmp(*environment, name, sizeof(name) - 1) == 0)
			return true;
	return false;
}

/* Finds the only cache in our own folder, as NAME=PATH. */
static bool hami_mode_find_cache(char *variable, size_t size)
{
	DIR *listing = opendir(folder);
	int found = 0;

	for (const struct dirent *entry; listing && (entry = readdir(listing));) {
		size_t length = strlen(entry->d_name);

		if (length <= 6 || strcmp(entry->d_name + length - 6, ".cache") != 0)
			continue;
		found++;
		snprintf(variable, size, CACHE_VARIABLE "=%s/%s", folder, entry->d_name);
	}
	if (listing)
		closedir(listing);
	return found == 1;
}

/* Adds those variables of the first process that the environment lacks, where it has the mark. */
static char **add_of_marked(char **environment, const char *const *beginnings, const char *mark)
{
	size_t length;
	char *first = read_first(&length);
	bool is_marked = false;

	if (!first)
		return environment;
	for (const char *at = first; at < first + length; at += strlen(at) + 1)
		is_marked |= strcmp(at, mark) == 0;
	for (const char *at = first; is_marked && at < first + length; at += strlen(at) + 1)
		if (is_one_of(at, beginnings) && !hami_mode_has(environment, at))
			environment = hami_mode_add(environment, at);
	free(first);
	return environment;
}

static void hami_mode_drop(char **environment, const char *const *beginnings)
{
	char **kept = environment;

	for (; *environment; environment++)
		if (is_one_of(*environment, beginnings))
			free(*environment);
		else
			*kept++ = *environment;
	*kept = NULL;
}

/*
 * Takes the values of these variables from the first process, if it was given any, and none of the
 * environment's. A process that could set other values could have another quota, or none.
 */
static char **take_of_first(char **environment, const char *const *beginnings)
{
	size_t length;
	char *first = read_first(&length);
	bool is_given = false;

	if (!first)
		return environment;
	for (const char *at = first; at < first + length; at += strlen(at) + 1)
		is_given |= is_one_of(at, beginnings);
	if (is_given)
		hami_mode_drop(environment, beginnings);
	for (const char *at = first; at < first + length; at += strlen(at) + 1)
		if (is_one_of(at, beginnings))
			environment = hami_mode_add(environment, at);
	free(first);
	return environment;
}

/* Returns whether the first process of our pid namespace is not the machine's. */
static bool is_in_container(void)
{
	char path[PATH_MAX], text[64];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/self/ns/pid", hami_mode_proc);
	length = readlink(path, text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = '\0';
	return length > 0 && strcmp(text, "pid:[4026531836]") != 0; /* the kernel's, fixed */
}

char **hami_mode_complete(char **environment)
{
	char variable[PATH_MAX + 64];

	if (!hami_mode_is())
		return is_in_container() ? add_of_marked(environment, of_device, HAMI_MODE_MARK)
		                         : environment;
	environment = take_of_first(environment, of_hami);
	/*
	 * A process with a limit was told its cache, too, if it has one: this one may be another's.
	 */
	if (!hami_mode_has(environment, CACHE_VARIABLE "=") && !hami_mode_is_limited(environment) &&
	    hami_mode_find_cache(variable, sizeof(variable)))
		environment = hami_mode_add(environment, variable);
	return environment;
}

bool hami_mode_directory(const char *cache, char *path, size_t size)
{
	const char *slash = cache ? strrchr(cache, '/') : NULL;
	size_t length = slash ? (size_t)(slash - cache) : 0;

	if (!slash || *cache != '/' ||
	    (length == strlen(folder) && strncmp(cache, folder, length) == 0))
		return false;
	return snprintf(path, size, "%.*s/spillway-%u", (int)length, cache, (unsigned)geteuid()) <
	       (int)size;
}

const char *hami_mode_log(void)
{
	const char *level = hami_mode_is() ? secure_getenv("LIBCUDA_LOG_LEVEL") : NULL;

	if (!level || strlen(level) != 1)
		return NULL;
	switch (*level) {
	case '0':
		return "error";
	case '3':
		return "info";
	case '4':
		return "debug";
	default:
		return NULL;
	}
}
