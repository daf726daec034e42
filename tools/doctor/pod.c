/* SPDX-License-Identifier: MIT */
/* spillway doctor: a pod that was given libvgpu.so. */
#include "tools/doctor/pod.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "core/modules/vgpu/region.h"
#include "core/modules/vgpu/hami_mode.h"
#include "tools/doctor/finding.h"
#include "tools/view/tool.h"

#define LIBRARY "libvgpu.so"

/* Finds the library's path in a list that spaces or colons divide. */
static bool pod_find_in(const char *list, char path[PATH_MAX])
{
	const char *found = list ? strstr(list, LIBRARY) : NULL, *begin = found;

	if (!found)
		return false;
	while (begin > list && !strchr(" :\t\n", begin[-1]))
		begin--;
	snprintf(path, PATH_MAX, "%.*s", (int)(found - begin) + (int)strlen(LIBRARY), begin);
	return true;
}

static bool find_library(char path[PATH_MAX])
{
	char *line = NULL;
	size_t size = 0;
	FILE *file = fopen("/etc/ld.so.preload", "re");
	bool found = pod_find_in(getenv("LD_PRELOAD"), path);

	while (file && !found && getline(&line, &size, file) > 0)
		found = pod_find_in(line, path);
	if (file)
		fclose(file);
	free(line);
	return found;
}

/* Returns whether the library knows a variable of ours. */
static bool pod_is_ours(const char *path)
{
	static const char variable[] = "SPILLWAY_STATE_DIR";
	FILE *file = fopen(path, "re");
	long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
	void *bytes = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fileno(file), 0)
	                       : MAP_FAILED;
	bool found = false;

	if (bytes != MAP_FAILED) {
		found = memmem(bytes, (size_t)size, variable, sizeof variable) != NULL;
		munmap(bytes, (size_t)size);
	}
	if (file)
		fclose(file);
	return found;
}

static char **pod_copy_environment(void)
{
	int count = 0;
	char **copy;

	while (environ[count])
		count++;
	copy = allocate(((size_t)count + 1) * sizeof *copy);
	for (int i = 0; i < count; i++)
		copy[i] = text("%s", environ[i]);
	return copy;
}

struct pod pod_find(void)
{
	struct pod pod = {.library = ""};
	char *folder;

	if (!find_library(pod.library))
		return pod;
	pod.is_ours = pod_is_ours(pod.library);
	if (!pod.is_ours)
		return pod;
	folder = text("%s", pod.library);
	*(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = '\0';
	hami_mode_begin(folder);
	pod.environment = hami_mode_complete(pod_copy_environment());
	free(folder);
	return pod;
}

/* Returns whether a variable gives the container a limit on memory. */
static bool has_limit(char *const *environment)
{
	static const char name[] = "CUDA_DEVICE_MEMORY_LIMIT";

	for (; *environment; environment++) {
		const char *value = strchr(*environment, '=');

		if (strncmp(*environment, name, sizeof name - 1) == 0 && value && value[1] &&
		    strcmp(value, "=0") != 0)
			return true;
	}
	return false;
}

/* Prints the contents of the region. Returns whether it has limits. */
static bool explain_region(const char *cache)
{
	struct region_settings settings;
	char limit[32];
	int error = region_read(cache, &settings);

	if (error == -ENOENT) {
		finding(FINDING_OK,
		        "pod: shared region: %s: not there yet: no program here has used CUDA",
		        cache);
		return false;
	}
	if (error) {
		finding(FINDING_NOTE,
		        "pod: shared region: %s: %s: HAMi's monitor and this pod do not see "
		        "each other",
		        cache, error == -EPROTO ? "expected version 1.1 or 1.2" : strerror(-error));
		return false;
	}
	for (int i = 0; i < settings.count; i++)
		finding(FINDING_OK, "pod: shared region: %s: memory = %s, share = %d",
		        settings.device[i].uuid,
		        settings.device[i].limit
		            ? units_format_size(settings.device[i].limit, limit, sizeof limit)
		            : "unlimited",
		        settings.device[i].percent ? (int)settings.device[i].percent : 100);
	if (settings.is_blocked)
		finding(FINDING_NOTE,
		        "pod: shared region: HAMi's monitor has stopped this container's "
		        "launches: one of higher priority works on the GPU");
	return settings.count > 0;
}

static void explain_node(void)
{
	if (access(DIRECTORY_NODE, W_OK | X_OK) == 0)
		return;
	if (access(HAMI_MODE_NODE, W_OK | X_OK) == 0)
		finding(FINDING_OK,
		        "pod: the node sees this pod by " HAMI_MODE_NODE
		        ": SPILLWAY_NODE_DIR=" HAMI_MODE_NODE
		        " spillway stat, as root there; turns between pods need " DIRECTORY_NODE);
	else
		finding(
		    FINDING_NOTE,
		    "pod: neither " DIRECTORY_NODE " nor " HAMI_MODE_NODE
		    " is mounted: the node does not see this pod, and its priority counts among "
		    "its own processes alone");
}

void pod_explain(const struct pod *pod)
{
	const char *cache;
	char directory[DIRECTORY_MAX + 1];
	bool is_limited;

	if (!pod->is_ours) {
		finding(FINDING_NOTE,
		        "pod: %s is not Spillway's: HAMi-core limits the programs here",
		        pod->library);
		finding_try("man spillway-kubernetes, which says how to put ours in its place");
		return;
	}
	finding(FINDING_OK, "pod: %s is Spillway's", pod->library);
	cache = config_variable(pod->environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE");
	is_limited = has_limit(pod->environment);
	if (cache)
		is_limited |= explain_region(cache);
	else
		finding(FINDING_OK,
		        "pod: no CUDA_DEVICE_MEMORY_SHARED_CACHE: there is no shared region, and "
		        "HAMi's monitor shows nothing of this pod");
	if (!is_limited) {
		finding(FINDING_NO,
		        "pod: no limit on memory: CUDA_DEVICE_MEMORY_LIMIT is neither in this "
		        "environment nor in that of process 1");
		finding_try(
		    "tr '\\0' '\\n' </proc/1/environ | grep CUDA_DEVICE, and the scheduler's log");
	}
	if (hami_mode_directory(cache, directory, sizeof directory))
		finding(FINDING_OK, "pod: the job's files are in %s, which the node has, too",
		        directory);
	explain_node();
}
