/* SPDX-License-Identifier: MIT */
/*
 * Memory cgroups: how much that of this process, and each above it, still leaves.
 *
 * The process's cgroup comes from /proc/self/cgroup, where it lies from /proc/self/mountinfo, so a
 * machine without cgroup namespaces (systemd, Slurm), a container with one, version 1, version 2
 * and both at once are the same to whoever asks. Thread-safe, allocates nothing, changes errno;
 * opens files, so it is not for hot paths.
 */
#ifndef SPILLWAY_CGROUP_H
#define SPILLWAY_CGROUP_H

#include <stdint.h>

enum { CGROUP_PATH = 1024 };

struct cgroup_memory {
	uint64_t
	    left; /* the least of all levels, file cache counted as free; UINT64_MAX: no limit */
	uint64_t limit; /* of the level that leaves least; UINT64_MAX: none */
	uint64_t used;  /* charged to the nearest level that says; UINT64_MAX: none does */
	char tightest[CGROUP_PATH]; /* the directory of the level that leaves least; "": none */
};

/* Reads the levels. `root` stands before each path: "" but in tests. */
void cgroup_memory(const char *root, struct cgroup_memory *memory);

#endif
