/* SPDX-License-Identifier: MIT */
/*
 * A library with a destructor that waits until the file that LINGERS names is gone, as one that
 * saves a model would.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((destructor)) static void linger(void)
{
	const char *file = getenv("LINGERS");
	const struct timespec pause = {.tv_nsec = 5000000};

	while (file && access(file, F_OK) == 0)
		nanosleep(&pause, NULL);
}
