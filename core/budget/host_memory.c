/*
 * Available host memory, from /proc and the memory cgroups. Rules: runs inside the user's process.
 */
#include "core/budget/host_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/config/config.h"

/*
 * Reads the start of a small file of the kernel's and terminates it. Returns whether it could be
 * read.
 */
static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

/*
 * Returns the least of MemAvailable and what the memory cgroup of this process and each above it
 * leave, in bytes; UINT64_MAX when nothing can be read. `root` stands before each path that is
 * read: "" but in tests.
 */
static uint64_t host_memory_available(const char *root)
{
	static const char key[] = "MemAvailable:";
	struct cgroup_memory cgroup;
	char text[1024], path[CGROUP_PATH];
	uint64_t available = UINT64_MAX;
	const char *line;
	int cancel;

	/* No allocation is a place where a thread expects to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	cgroup_memory(root, &cgroup);
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (read_text(path, text, sizeof(text))) {
		line = strstr(text, key);
		if (line)
			available = strtoull(line + sizeof(key) - 1, NULL, 10) << 10;
	}
	pthread_setcancelstate(cancel, NULL);
	return available < cgroup.left ? available : cgroup.left;
}

uint64_t host_memory_limit(uint64_t setting, uint64_t charged)
{
	uint64_t available;

	if (setting != CONFIG_AUTO)
		return setting;
	available = host_memory_available("");
	return available == UINT64_MAX ? UINT64_MAX : available / 2 + charged;
}
