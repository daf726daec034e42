/* SPDX-License-Identifier: MIT */
/* The trace of launches: "NS FUNCTION SHAPE NAME" a line; the time is of CLOCK_MONOTONIC. */
#include "tests/softgpu/trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "tests/softgpu/config.h"

static FILE *file;

static void open_file(void)
{
	if (!config()->trace)
		return;
	file = fopen(config()->trace, "w");
	if (!file)
		say("SOFTGPU_TRACE: '%s' cannot be written", config()->trace);
}

void trace_launch(const void *function, const char *name, const uint32_t grid[3],
                  const uint32_t block[3])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct timespec now;

	pthread_once(&once, open_file);
	if (!file)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	flockfile(file);
	fprintf(file, "%lld%09ld %" PRIxPTR " ", (long long)now.tv_sec, now.tv_nsec,
	        (uintptr_t)function);
	if (grid)
		fprintf(file, "%u.%u.%u.%u.%u.%u", grid[0], grid[1], grid[2], block[0], block[1],
		        block[2]);
	else
		fputc('0', file);
	fprintf(file, " %s\n", name);
	funlockfile(file);
}
