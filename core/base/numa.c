/* SPDX-License-Identifier: MIT */
/* NUMA nodes. Rules: runs inside the user's process; cancellation points are file operations. */
#include "core/base/numa.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node/"

enum { BITS = 64, TEXT_MAX = 8192 };

static bool numa_read_text(const char *root, const char *path, char text[TEXT_MAX])
{
	char name[PATH_MAX];
	ssize_t got;
	int fd;

	snprintf(name, sizeof(name), "%s%s", root, path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* Reads "0-3,5" as bits; nodes from 64 on are left out. */
static uint64_t read_list(const char *at)
{
	uint64_t found = 0;

	while (isdigit((unsigned char)*at)) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long i = first; i <= last && i < BITS; i++)
			found |= (uint64_t)1 << i;
		at = *end == ',' ? end + 1 : "";
	}
	return found;
}

static uint64_t nodes_in(const char *root, const char *file)
{
	char text[TEXT_MAX];

	return numa_read_text(root, file, text) ? read_list(text) : 0;
}

static uint64_t allowed(const char *root)
{
	static const char key[] = "\nMems_allowed_list:";
	char text[TEXT_MAX];
	const char *line =
	    numa_read_text(root, "/proc/self/status", text) ? strstr(text, key) : NULL;

	return line ? read_list(line + sizeof(key) - 1 + strspn(line + sizeof(key) - 1, " \t"))
	            : UINT64_MAX;
}

/* Fills in how far each node is from this one: the file names those that are online, in order. */
static void read_distances(const char *root, int from, unsigned long distance[BITS])
{
	uint64_t online = nodes_in(root, NODES "online");
	char text[TEXT_MAX], path[64], *at = text;

	snprintf(path, sizeof(path), NODES "node%d/distance", from);
	for (int i = 0; i < BITS; i++)
		distance[i] = i == from ? 0 : ULONG_MAX;
	if (!numa_read_text(root, path, text))
		return;
	for (int i = 0; i < BITS; i++) {
		char *end;
		unsigned long value;

		if (!(online >> i & 1))
			continue;
		value = strtoul(at, &end, 10);
		if (end == at)
			return;
		distance[i] = i == from ? 0 : value;
		at = end;
	}
}

int numa_nodes(const char *root, int from, int nodes[NUMA_NODES_MAX])
{
	unsigned long distance[BITS];
	int count = 0, kept = errno;
	uint64_t left = nodes_in(root, NODES "has_normal_memory") &
	                nodes_in(root, NODES "has_cpu") & allowed(root);

	read_distances(root, from, distance);
	while (left && count < NUMA_NODES_MAX) {
		int nearest = __builtin_ctzll(left);

		for (int i = nearest + 1; i < BITS; i++)
			if (left >> i & 1 && distance[i] < distance[nearest])
				nearest = i;
		left &= ~((uint64_t)1 << nearest);
		nodes[count++] = nearest;
	}
	errno = kept;
	return count;
}

/* Adds one figure of a node's file, in bytes. */
static void add_number(const char *meminfo, const char *key, uint64_t *sum)
{
	const char *line = strstr(meminfo, key);

	*sum += line ? strtoull(line + strlen(key), NULL, 10) << 10 : 0;
}

bool numa_memory(const char *root, uint64_t *total, uint64_t *available)
{
	uint64_t all = nodes_in(root, NODES "has_normal_memory"), mine;
	char text[TEXT_MAX], path[64];

	if (!(all & (all - 1))) /* there is one at most */
		return false;
	mine = all & allowed(root);
	*total = *available = 0;
	for (int i = 0; i < BITS; i++) {
		snprintf(path, sizeof(path), NODES "node%d/meminfo", i);
		if (!(mine >> i & 1) || !numa_read_text(root, path, text))
			continue;
		add_number(text, " MemTotal:", total);
		add_number(text, " MemFree:", available);
		add_number(text, " Active(file):", available);
		add_number(text, " Inactive(file):", available);
	}
	return mine != all && *total;
}
