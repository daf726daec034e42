/* SPDX-License-Identifier: MIT */
/*
 * Asking a real CUDA driver.
 */
#ifndef SPILLWAY_DRIVER_H
#define SPILLWAY_DRIVER_H

#include "tools/doctor/driver_report.h"

/* Asks in a child process, for at most 20 s: a broken driver cannot take us along. */
void driver_probe(const char *path, struct driver_report *report);

#endif
