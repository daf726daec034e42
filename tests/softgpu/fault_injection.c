/* SPDX-License-Identifier: MIT */
/*
 * Calls that fail because they were told to. SOFTGPU_FAIL="cuMemCreate:3=2,...": the third use of
 * cuMemCreate answers CUresult 2. SOFTGPU_DRIVER_VERSION=12020: later functions are not there.
 */
#include "tests/softgpu/driver.h"

#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/entry_points.h"

#define MAX_FAULTS 64

struct fault {
	const char *name;
	size_t length;
	unsigned long use, uses;
	CUresult result;
};

static struct fault faults[MAX_FAULTS];
static int fault_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_faults(void)
{
	const char *text = config()->fail;
	while (text && *text) {
		const char *colon = strchr(text, ':');
		char *end = NULL;
		struct fault fault = {.name = text};
		if (colon) {
			fault.length = (size_t)(colon - text);
			fault.use = strtoul(colon + 1, &end, 10);
			if (*end == '=')
				fault.result = (CUresult)strtoul(end + 1, &end, 10);
		}
		if (!end || (*end && *end != ',') || !fault.use || !fault.result ||
		    fault_count == MAX_FAULTS) {
			say("SOFTGPU_FAIL: expected name:use=result,... at '%s'", text);
			return;
		}
		faults[fault_count++] = fault;
		text = *end ? end + 1 : end;
	}
}

/* The loader finds newer symbols all the same; an older driver would not have them. */
static bool is_too_new(const char *symbol)
{
	for (const struct entry_point *entry = entry_points; entry->symbol; entry++)
		if (strcmp(entry->symbol, symbol) == 0)
			return entry->version > config()->driver_version;
	return false;
}

CUresult injected_failure(const char *name)
{
	if (config()->driver_version < DRIVER_VERSION && is_too_new(name)) {
		say("%s is newer than driver %d", name, config()->driver_version);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	CUresult result = CUDA_SUCCESS;
	pthread_once(&once, read_faults);
	for (int i = 0; i < fault_count; i++) {
		struct fault *fault = &faults[i];
		if (strlen(name) != fault->length || memcmp(name, fault->name, fault->length) != 0)
			continue;
		if (__atomic_add_fetch(&fault->uses, 1, __ATOMIC_RELAXED) != fault->use)
			continue;
		say("use %lu of %s answers %d", fault->use, name, (int)fault->result);
		result = fault->result;
	}
	return result;
}
