/* SPDX-License-Identifier: MIT */
/*
 * Memory cgroups: the room that the cgroup of this process, and each above it, still leaves.
 *
 * The process's cgroup comes from /proc/self/cgroup, and its place in the file system from
 * /proc/self/mountinfo. So the caller sees no difference between version 1, version 2 and both at
 * once, or between a container with a cgroup namespace and a machine without one (systemd, Slurm).
 * Thread-safe, allocates nothing, changes errno; opens files, so it is not for hot paths.
 */
#ifndef SPILLWAY_CGROUP_H
#define SPILLWAY_CGROUP_H

#include <stdbool.h>
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

/*
 * The limits of a GPU's memory, by the kernel's dmem controller (Linux 6.14) or files like its. A
 * line is, for example, "nvidia/0000:3b:00.0/vidmem 1073741824". hard is the least dmem.max of all
 * levels. soft is the dmem.min of the nearest level that has one. For example, a pod with dmem.max
 * 2 GiB in a slice with 1 GiB has hard = 1 GiB.
 */
enum { CGROUP_DEVICES = 8, CGROUP_PCI = 24 };
struct cgroup_device {
	char pci[CGROUP_PCI];
	uint64_t hard;                                       /* UINT64_MAX: none */
	uint64_t soft;                                       /* 0: none */
	uint64_t used;                                       /* of the nearest level */
	char hard_from[CGROUP_PATH], soft_from[CGROUP_PATH]; /* directories; "": none */
};
/*
 * Reads them. leaf: the directory of the nearest level, where it is not to be found as above; NULL:
 * it is. A level without such files, whose controller is off, has no limits of its own. Returns how
 * many devices have a limit or are said not to have one.
 */
int cgroup_devices(const char *root, const char *leaf, struct cgroup_device found[CGROUP_DEVICES]);
/* Returns the directory of the process's own cgroup of version 2; false: there is none. */
bool cgroup_own(const char *root, char directory[CGROUP_PATH]);

/*
 * The Kubernetes pod of this process, from the path of its cgroup or, where a namespace hides that,
 * from a mount of the kubelet's. For example, a process of the container "train" has the mount
 * /var/lib/kubelet/pods/UID/containers/train/1f2e3d4c.
 */
struct cgroup_pod {
	char uid[37], container[64]; /* "": not known */
};
void cgroup_pod(const char *root, struct cgroup_pod *pod);

#endif
