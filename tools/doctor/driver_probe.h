/*
 * What the files of the driver's probe share. All of this runs in the probe's child process.
 */
#ifndef SPILLWAY_DRIVER_PROBE_H
#define SPILLWAY_DRIVER_PROBE_H

#include <cuda.h>

#include "tools/doctor/driver.h"

/* Leaves what is about to be done in the report, for the case that it does not come back. */
void probe_about_to(const char *what);
/* Tries each provider of host memory on the device, in a context of its own. */
void probe_providers(void *library, CUdevice handle, struct driver_features *features);

#endif
