/* SPDX-License-Identifier: MIT */
/*
 * Trying the providers of host memory. All of this runs in the probe's child process.
 */
#ifndef SPILLWAY_PROVIDER_PROBE_H
#define SPILLWAY_PROVIDER_PROBE_H

#include <cuda.h>
#include <stdio.h>

#include "tools/doctor/driver_report.h"

/* Leaves the next step in the report, for the case that it does not come back. */
static inline void probe_about_to(struct driver_report *report, const char *what)
{
	snprintf(report->said, sizeof report->said, "%s", what);
}

/*
 * Tries each provider of host memory on the report's device of this index, in a context of its own.
 */
void probe_providers(void *library, CUdevice handle, struct driver_report *report, int index);

#endif
