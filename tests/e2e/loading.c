/* SPDX-License-Identifier: MIT */
/*
 * A library that calls the driver as it is loaded. Another thread is about to call the driver for
 * the first time then. A byte from the descriptor LOADING_WAIT says so.
 */
#include <stdlib.h>
#include <unistd.h>

extern int cuDriverGetVersion(int *version);

__attribute__((constructor)) static void call(void)
{
	const char *descriptor = getenv("LOADING_WAIT");
	int version;
	char byte;

	if (!descriptor || read(atoi(descriptor), &byte, 1) != 1)
		return;
	usleep(50000); /* it is in its call by now */
	cuDriverGetVersion(&version);
}
