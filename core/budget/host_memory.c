/* SPDX-License-Identifier: MIT */
/*
 * Available host memory, from /proc and the memory cgroups. Rules: runs inside the user's process.
 */
#include "core/budget/host_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/base/numa.h"

/* So much of a machine's memory is left to it: a 20th of all. */
enum { FLOOR_PART = 20 };

/*
 * Reads the start of a small file of the kernel's and terminates it. Returns whether it could be
 * read.
 */
static bool host_memory_read_text(const char *path, char *text, size_t size)
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

/* Returns the bytes that /proc/meminfo says of this, UINT64_MAX where it does not. */
static uint64_t number_of(const char *meminfo, const char *key)
{
	const char *line = strstr(meminfo, key);

	return line ? strtoull(line + strlen(key), NULL, 10) << 10 : UINT64_MAX;
}

static uint64_t host_memory_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Returns how much of a machine may be held. Memory that is held already is no more available, so
 * it is added before the whole is halved: many small requests come to the same as one large one.
 * Memory that is filled later than it is charged is still available: it is bounded by half of all.
 */
static uint64_t part_of_machine(uint64_t total, uint64_t available, uint64_t charged)
{
	uint64_t floor = total / FLOOR_PART;
	uint64_t half = host_memory_least(available / 2 + charged / 2, total / 2);

	return host_memory_least(half, charged + (available > floor ? available - floor : 0));
}

/*
 * Returns the value of `auto`; UINT64_MAX when nothing can be read. A driver's memory counts in no
 * cgroup, so half of a cgroup's room is for all of it. `root` stands before each path that is read:
 * "" except in tests.
 */
static uint64_t host_memory_auto(const char *root, uint64_t charged)
{
	struct cgroup_memory cgroup;
	char text[1024], path[CGROUP_PATH];
	uint64_t total = UINT64_MAX, available = UINT64_MAX, of_nodes, left_of_nodes;
	int cancel;

	/* No allocation is a place where a thread expects to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	cgroup_memory(root, &cgroup);
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (host_memory_read_text(path, text, sizeof(text))) {
		total = number_of(text, "MemTotal:");
		available = number_of(text, "MemAvailable:");
	}
	if (available != UINT64_MAX && numa_memory(root, &of_nodes, &left_of_nodes)) {
		total = host_memory_least(total, of_nodes);
		available = host_memory_least(available, left_of_nodes);
	}
	pthread_setcancelstate(cancel, NULL);
	if (available == UINT64_MAX)
		return cgroup.left == UINT64_MAX ? UINT64_MAX : cgroup.left / 2;
	return host_memory_least(part_of_machine(total, available, charged), cgroup.left / 2);
}

uint64_t host_memory_limit(uint64_t setting, bool at_most_auto, uint64_t charged)
{
	uint64_t most;

	if (setting != CONFIG_AUTO && !at_most_auto)
		return setting;
	most = host_memory_auto("", charged);
	return setting == CONFIG_AUTO ? most : host_memory_least(setting, most);
}
