/* SPDX-License-Identifier: MIT */
/*
 * The abilities of the driver at hand with physical memory on the host, as a probe of the machine
 * found them (core/state/probe_cache.h). For example, some drivers end the process in cuMemCreate,
 * and drivers differ in how they copy over memory on both tiers. A process reads the cache and
 * never asks the driver such a question, because the probe takes memory and may crash. Thread-safe.
 *
 * Without a cache, memory without a NUMA node is used with drivers that are known to crash, and no
 * allocation is mixed. The process then looks for a cache again, at most once a second.
 */
#ifndef SPILLWAY_HOST_PROBE_H
#define SPILLWAY_HOST_PROBE_H

#include "core/base/numa.h"
#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/state/probe_cache.h"

/* Each answer is a driver's error, PROBE_CRASHED or PROBE_UNKNOWN. */
struct host_probe {
	int nodes[NUMA_NODES_MAX]; /* NUMA nodes that can give memory, the device's own first */
	int node_count;            /* 0: not known; the device's own is taken */
	int numa;                  /* of memory on them */
	int host;                  /* of memory of the host without a node */
	int copy;                  /* of copies between such memory and the program's own */
	int node;  /* of a copy between both in a graph, when its memory has come to the device */
	int mixed; /* of copies and fills over a border between it and memory of the device */
	int unmap; /* of unmapping and releasing beside work, if they do not wait for it */
};

/*
 * Says which driver it is, before there are threads that ask. Without this everything is taken to
 * work.
 */
void host_probe_by(const char *driver_path);
/*
 * Looks the devices up as the process starts. Where the cache lacks an answer, leaves the file
 * "JOB.probe" in the state directory, with the driver's path: `spillway run` then makes the probe.
 */
void host_probe_look(struct device_set *devices, const char *job);
/* Returns the facts of the device. The answer may change later. */
const struct host_probe *host_probe_of(struct device *device);
/* Returns whether chunks can be on the host. */
bool host_probe_allows(struct device *device);
/*
 * Returns the fact about unmapping and releasing beside work: CUDA_SUCCESS, it does not wait for
 * it. PROBE_UNKNOWN before the first look; this opens no file.
 */
int host_probe_unmap(const struct device *device);
/*
 * Returns whether an allocation may be mixed: partly on the device, partly on the host. Kernels do
 * not mind. Where the driver refuses copies over both, or `mixed = whole` says so, each allocation
 * stays in one place and moves as a whole.
 */
bool host_probe_may_mix(struct device *device, const struct terms *terms);

#endif
