/* The environment variables of the software GPU, read once. README.md lists them. */
#ifndef SOFTGPU_CONFIG_H
#define SOFTGPU_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DEVICES 8

struct config {
	int devices;
	uint64_t memory;         /* bytes per device */
	uint64_t context_memory; /* bytes of device memory a context costs */
	uint64_t kernel_time_ns; /* a kernel occupies its device at least so long */
	bool mps;                /* kernels of different processes run together */
	bool quiet;
	bool no_vmm, no_host_vmm, no_host_numa;
	const char *visible_devices; /* NULL: all */
	const char *fail;            /* "name:nth=result,..." or NULL */
	const char *hide;            /* "name,name" or NULL */
	char state_dir[512];
};

/* Thread-safe; the first call reads the environment. */
const struct config *config(void);

/* One line on stderr, unless SOFTGPU_QUIET is set. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
