/* SPDX-License-Identifier: MIT */
/* Names the driver and the device that a recorded transcript comes from. */
#include "tests/clients/client.h"

#include <stdio.h>

int main(void)
{
	char name[256];
	int version = 0, major = 0, minor = 0;

	client_open_device(name);
	CU(cuDriverGetVersion(&version));
	CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	CU(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
	printf("%s, compute capability %d.%d, CUDA %d.%d\n", name, major, minor, version / 1000,
	       version % 1000 / 10);
	client_close_device(0);
	return 0;
}
