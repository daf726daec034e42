/* SPDX-License-Identifier: MIT */
/* The names of a device of the machine, the same by the driver and by NVML. */
#ifndef SOFTGPU_IDENTITY_H
#define SOFTGPU_IDENTITY_H

#include <stdio.h>
#include <string.h>

#define DEVICE_NAME      "Spillway software GPU"
#define DEVICE_UUID_TEXT 41

#define CAPABILITY_MAJOR 8
#define CAPABILITY_MINOR 0

/* 16 bytes. `device` counts those of the machine, before CUDA_VISIBLE_DEVICES. */
static inline void device_uuid(void *uuid, int device)
{
	memcpy(uuid, "spillway softgpu", 16);
	((char *)uuid)[15] = (char)device;
}

static inline void device_uuid_text(char text[DEVICE_UUID_TEXT], int device)
{
	unsigned char b[16];
	device_uuid(b, device);
	snprintf(text, DEVICE_UUID_TEXT,
	         "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
	         b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
	         b[14], b[15]);
}

static inline unsigned int device_pci_bus(int device)
{
	return (unsigned int)device + 1;
}

#endif
