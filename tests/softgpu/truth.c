/* SPDX-License-Identifier: MIT */
/* The exported truth about the devices; see softgpu.h. */
#include "tests/softgpu/machine.h"

int softgpu_truth(int device, struct softgpu_truth *truth, int capacity)
{
	return machine_truth(device, truth, capacity);
}
