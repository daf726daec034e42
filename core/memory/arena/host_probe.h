/*
 * What the driver at hand does with physical memory on the host, found out by a program of our own
 * (shim/probe/driver_probe.c), because there are drivers whose cuMemCreate ends the process, and
 * nobody knows how far each copies over memory on both sides. It is asked once for each boot of the
 * machine, version of the driver and device, when something is first to be spilled; the answer is
 * kept for the user in "driver-probe" of the state directory. Thread-safe.
 *
 * Where the program cannot be run (a container that was given the preloaded file alone) memory
 * without a NUMA node is used with drivers that are known to crash, and no allocation is mixed.
 */
#ifndef SPILLWAY_HOST_PROBE_H
#define SPILLWAY_HOST_PROBE_H

#include "core/base/numa.h"
#include "core/budget/device.h"
#include "core/budget/terms.h"

/* A driver's error, or: */
enum { PROBE_CRASHED = -1, PROBE_UNKNOWN = -2 };

struct host_probe {
	int nodes[NUMA_NODES_MAX]; /* NUMA nodes that can give memory, the device's own first */
	int node_count;            /* 0: nobody knows, and the device's own is taken */
	int numa;                  /* of memory on the first; crashed: on any of them */
	int host;                  /* of memory of the host without a node */
	int copy;                  /* of copies between such memory and the program's own */
	int node;  /* of a copy between both in a graph, when its memory has come to the device */
	int mixed; /* of copies and fills over a border between it and memory of the device */
	int unmap; /* of unmapping and releasing beside work, if they do not wait for it */
};

/*
 * Says where the program is, and which driver it is to try, before there are threads that ask.
 * Without this nothing is tried and everything is taken to work.
 */
void host_probe_by(const char *program, const char *driver_path);
/*
 * Returns what is known of the device, after finding it out. Waits for the program's end, in all
 * for 10 s of the process's life: then nothing is spilled, until the next process, which finds what
 * the program said.
 */
const struct host_probe *host_probe_of(struct device *device);
/* Returns whether chunks can be on the host. */
bool host_probe_allows(struct device *device);
/*
 * Returns what is known of unmapping and releasing beside work: CUDA_SUCCESS, it does not wait for
 * it. PROBE_UNKNOWN while nobody has asked; this does not.
 */
int host_probe_unmap(const struct device *device);
/*
 * Returns whether an allocation may be mixed: partly on the device, partly on the host. Kernels do
 * not mind. Where the driver refuses copies over both, or `mixed = whole` says so, each allocation
 * stays in one place and moves as a whole.
 */
bool host_probe_may_mix(struct device *device, const struct terms *terms);

#endif
