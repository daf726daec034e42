/* SPDX-License-Identifier: MIT */
/*
 * Which memory of the host a driver gives for virtual addresses, its cost, and the cgroup that is
 * charged.
 */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void ask_location(const struct question *q)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = (CUmemLocationType)q->form,
	                 .id = q->form == CU_MEM_LOCATION_TYPE_HOST_NUMA ? gpu_host_node() : 0}};
	CUmemAccessDesc access = range_access();
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr at = 0;

	ATTEMPT(cuMemCreate(&handle, small_chunk, &properties, 0));
	ATTEMPT(cuMemAddressReserve(&at, small_chunk, 0, 0, 0));
	ATTEMPT(cuMemMap(at, small_chunk, 0, handle, 0));
	ATTEMPT(cuMemSetAccess(at, small_chunk, &access, 1));
	ATTEMPT(cuMemsetD8(at, 1, small_chunk));
	ATTEMPT(cuCtxSynchronize());
	if (!refused(q))
		answer(q->name, "yes", "2 MiB, id %d", properties.location.id);
}

static void ask_node(const struct question *q)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = q->form}};
	CUmemGenericAllocationHandle handle = 0;

	ATTEMPT(cuMemCreate(&handle, small_chunk, &properties, 0));
	if (!refused(q))
		answer(q->name, "yes", "cuMemCreate of 2 MiB on node %d", q->form);
}

static int attribute(CUdevice_attribute which)
{
	int value = -1;

	return gpu.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : -1;
}

static void ask_attributes(const struct question *q)
{
	int node = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);

	answer(q->name, node >= 0 ? "known" : "none",
	       "HOST_NUMA_ID %d, HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED %d, "
	       "HOST_NATIVE_ATOMIC_SUPPORTED %d, PAGEABLE_MEMORY_ACCESS %d",
	       node, attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	       attribute(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED),
	       attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS));
}

/* All calls of the mover, from a thread that has never had a context. */
static void *use_without_context(void *unused)
{
	struct range range;

	(void)unused;
	range_make(&range, "d", small_chunk);
	ATTEMPT(cuMemUnmap(range.base, small_chunk));
	range.count = 0;
	range_free(&range);
	return NULL;
}

static void ask_without_context(const struct question *q)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, use_without_context, NULL) != 0)
		program_die("pthread_create failed");
	pthread_join(thread, NULL);
	if (!refused(q))
		answer(q->name, "yes", "reserve, create, map, set access, unmap, release");
}

static void ask_costs(const struct question *q)
{
	size_t most = (size_t)(short_form ? 32 : 512) << 20;
	CUmemAllocationProp properties = range_properties('h');
	char text[600] = "";
	size_t used = 0;
	double per_gib = 0;

	for (size_t size = small_chunk; size <= most; size *= 4) {
		for (int again = 0; again < 2; again++) {
			CUmemGenericAllocationHandle handle = 0;
			double at[3];

			at[0] = program_now_ms();
			ATTEMPT(cuMemCreate(&handle, size, &properties, 0));
			at[1] = program_now_ms();
			ATTEMPT(cuMemRelease(handle));
			at[2] = program_now_ms();
			per_gib = (at[1] - at[0]) * (double)((size_t)1 << 30) / (double)size;
			used += (size_t)snprintf(
			    text + used, sizeof(text) - used,
			    "%s%zu MiB%s create %.0f release %.0f", used ? "; " : "", size >> 20,
			    again ? " again" : "", (at[1] - at[0]) * 1e3, (at[2] - at[1]) * 1e3);
		}
	}
	if (!not_asked(q))
		answer(q->name, per_gib < 1000 ? "quick" : "slow", "us: %s", text);
}

/* A number of a file: the one after the word, or its first. -1: there is none. */
static long number_in(const char *path, const char *word, int nth)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long value = -1;

	while (file && value < 0 && fgets(line, sizeof(line), file)) {
		long first, second;

		if (word && strncmp(line, word, strlen(word)) != 0)
			continue;
		int got = sscanf(line + (word ? strlen(word) : 0), "%ld %ld", &first, &second);
		value = got >= nth ? (nth == 2 ? second : first) : -1;
	}
	if (file)
		fclose(file);
	return value;
}

static const char cgroup_file[] = "/sys/fs/cgroup/memory.current";

static void ask_accounting(const struct question *q)
{
	size_t size = (size_t)(short_form ? 64 : 1024) << 20;
	long rss = number_in("/proc/self/statm", NULL, 2);
	long available = number_in("/proc/meminfo", "MemAvailable:", 1);
	long cgroup = number_in(cgroup_file, NULL, 1);
	struct range range;

	range_make(&range, "h", size);
	ATTEMPT(cuMemsetD8(range.base, 1, size));
	ATTEMPT(cuCtxSynchronize());
	if (not_asked(q))
		return;
	rss = (number_in("/proc/self/statm", NULL, 2) - rss) / 256;
	available = (number_in("/proc/meminfo", "MemAvailable:", 1) - available) / 1024;
	long charged = number_in(cgroup_file, NULL, 1);
	charged = cgroup < 0 || charged < 0 ? -1 : (charged - cgroup) >> 20;
	answer(q->name,
	       charged < 0                         ? "not asked"
	       : charged >= (long)(size >> 20) / 2 ? "charged"
	                                           : "not charged",
	       "%zu MiB: resident %+ld MiB, MemAvailable %+ld MiB, cgroup %+ld MiB (-1: none)",
	       size >> 20, rss, available, charged);
}

const struct question host_memory_questions[] = {
    {.name = "numa_node_of_device",
     .risk = "1,8",
     .asks = "Does the device name a NUMA node of the host as its own?",
     .counted_on = "known",
     .then = "spilled memory lies on that node",
     .otherwise = "choose the node by the device's PCI address; node 0 is taken today",
     .ask = ask_attributes},
    {.name = "host_numa_works",
     .risk = "1",
     .asks = "Can memory of the host be made on the device's NUMA node, mapped and written?",
     .counted_on = "yes",
     .then = "spilled memory is made so",
     .otherwise =
         "if the process died: try it in a child before a job, and prefer memory without a "
         "node; if refused: memory without a node, or managed",
     .form = CU_MEM_LOCATION_TYPE_HOST_NUMA,
     .ask = ask_location},
    {.name = "host_location_works",
     .risk = "1",
     .asks = "Can memory of the host be made without naming a node?",
     .counted_on = "yes",
     .then = "it is the second choice where the node's memory is refused or used up",
     .otherwise = "there is no second choice: other nodes are to be tried, nearest first",
     .form = CU_MEM_LOCATION_TYPE_HOST,
     .ask = ask_location},
#define NODE(i)                                                                                    \
	{                                                                                          \
		.name = "numa_node_" #i, .risk = "8",                                              \
		.asks = "Can memory be made on NUMA node " #i " of the host?",                     \
		.then =                                                                            \
		    "nodes that can are where spilled memory may go on when the device's is full", \
		.form = i, .ask = ask_node                                                         \
	}
    NODE(0),
    NODE(1),
    NODE(2),
    NODE(3),
    {.name = "vmm_from_thread_without_context",
     .risk = "-",
     .asks = "May a thread without a current context make, map, open and unmap memory?",
     .counted_on = "yes",
     .then = "the mover's thread does so",
     .otherwise = "the mover's thread has to make the context current first",
     .ask = ask_without_context},
    {.name = "host_memory_costs",
     .risk = "8",
     .asks = "What does memory of the host cost to make and to release, and is the second time "
             "cheaper?",
     .counted_on = "quick",
     .then = "chunks are made when something spills, and released when it is back",
     .otherwise =
         "keep released chunks of the host for the next demotion: a GiB takes over a second",
     .ask = ask_costs},
    {.name = "host_memory_accounting",
     .risk = "8",
     .asks = "Is memory of the host charged to the process's control group?",
     .counted_on = "not charged",
     .then = "host_memory stays Spillway's own word, and keeps clear of what is available",
     .otherwise = "take what is spilled off the room that the control group leaves",
     .ask = ask_accounting},
    {0},
};
