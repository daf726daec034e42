/* SPDX-License-Identifier: MIT */
/* A libcuda.so.1 that can be loaded and asked for its version, and dies in cuInit. */
#include <stdlib.h>

int cuDriverGetVersion(int *version);
int cuInit(unsigned int flags);

int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return 0;
}

int cuInit(unsigned int flags)
{
	(void)flags;
	abort();
}
