/* SPDX-License-Identifier: MIT */
/* The environment variables of the software GPU, read once. README.md lists them. */
#ifndef SOFTGPU_CONFIG_H
#define SOFTGPU_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DEVICES 8

/* The newest driver this one can be, in CUDA's way of writing versions, and the page of the window:
 * all granularities are multiples of it. */
#define DRIVER_VERSION        13000 /* by default */
#define NEWEST_DRIVER_VERSION 13050 /* of entry_points.def */
#define GRANULARITY           (2ULL << 20)

/* Traits: some drivers and machines have them and others do not; SOFTGPU_TRAITS names them. */
struct traits {
	bool cpu_copies;        /* copies between memory of the host are made by the CPU */
	bool host_numa_crashes; /* cuMemCreate on a NUMA node of the host ends the process */
	bool host_nodes;        /* captured copies between memory of the host are the CPU's */
	bool kernel_crashes;    /* cuFuncGetParamInfo() follows a kernel's handle as a function's */
	bool newer_forms;       /* calls that take memory have forms that no header here knows */
	bool slow_memory_info;  /* cuMemGetInfo takes 8 ms */
	bool uncached_host;     /* kernels read memory of the host anew with each access */
	bool unmap_holds;       /* the same, and other calls wait for these meanwhile */
	bool unmap_waits;       /* cuMemUnmap and cuMemRelease wait for work that runs */
};

/* One NUMA node of the host. */
struct numa_node {
	uint64_t memory; /* bytes that virtual memory may take there */
	bool has_cpus;
	bool crashes; /* the process that asks for some */
};

/* Forms of copies and fills, as bits: which of them a driver refuses over a border. */
enum copy_form {
	FORM_TO_DEVICE = 1,
	FORM_TO_HOST = 2,
	FORM_BETWEEN = 4, /* device memory to device memory */
	FORM_ROWS = 8,    /* two and three dimensions */
	FORM_FILL = 16,
};

#define MAX_NUMA_NODES 8

struct config {
	int devices;
	uint64_t memory;         /* bytes per device */
	uint64_t context_memory; /* bytes of device memory a context costs */
	uint64_t kernel_time_ns; /* a kernel occupies its device at least so long */
	uint64_t granularity;    /* of virtual memory: sizes must be multiples of it */
	uint64_t host_bandwidth; /* bytes per second that devices get from the host; 0: unlimited */
	uint64_t release_delay_ns; /* memory of a dead process stays held so long */
	int driver_version;        /* what the driver says it is, and whose names it has */
	bool mps;                  /* kernels of different processes run together */
	bool quiet;
	bool no_vmm, no_host_vmm, no_host_numa;
	bool nvml_totals;         /* NVML tells the use of a device by totals alone */
	bool nvml_of_host;        /* NVML numbers processes as the host of a container does */
	unsigned int no_mixed[2]; /* forms refused where memory of the device lies before memory of
	                             the host, and the other way round */
	struct traits traits;
	struct numa_node nodes[MAX_NUMA_NODES];
	int node_count;
	uint64_t legacy_event_ns;    /* each event in a legacy stream holds the stream so long */
	const char *visible_devices; /* NULL: all */
	const char *fail;            /* "name:nth=result,..." or NULL */
	const char *hide;            /* "name,name" or NULL */
	const char *attributes;      /* "NAME=value,..." or NULL */
	const char *trace;           /* file or NULL */
	char state_dir[512];
	char cgroup[256]; /* a directory with dmem.max and dmem.min; "": none */
};

/* Thread-safe; the first call reads the environment. */
const struct config *config(void);

/* One line on stderr, unless SOFTGPU_QUIET is set. */
/* Gets what is said, too, quiet or not; NULL: nobody. */
extern void (*say_too)(const char *line);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
