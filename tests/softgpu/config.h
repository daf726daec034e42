/* The environment variables of the software GPU, read once. README.md lists them. */
#ifndef SOFTGPU_CONFIG_H
#define SOFTGPU_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DEVICES 8

/* The newest driver this one can be, in CUDA's way of writing versions, and the page of the window:
 * all granularities are multiples of it. */
#define DRIVER_VERSION 13000
#define GRANULARITY    (2ULL << 20)

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
	bool nvml_totals;            /* NVML tells the use of a device by totals alone */
	bool nvml_of_host;           /* NVML numbers processes as the host of a container does */
	bool no_mixed_copies;        /* one side of a copy is all on a device or all on the host */
	const char *visible_devices; /* NULL: all */
	const char *fail;            /* "name:nth=result,..." or NULL */
	const char *hide;            /* "name,name" or NULL */
	const char *attributes;      /* "NAME=value,..." or NULL */
	const char *trace;           /* file or NULL */
	char state_dir[512];
};

/* Thread-safe; the first call reads the environment. */
const struct config *config(void);

/* One line on stderr, unless SOFTGPU_QUIET is set. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
