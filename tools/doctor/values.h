/* SPDX-License-Identifier: MIT */
/* The configuration, with where each value comes from. */
#ifndef SPILLWAY_VALUES_H
#define SPILLWAY_VALUES_H

#include <stdbool.h>

#include "tools/doctor/driver_report.h"
#include "tools/doctor/pod.h"

/* Says what holds for each GPU, also what is built in where `all` is set. */
void values_check(const struct driver_report *report, const struct pod *pod, bool all);
/* Says that a section of an INI is for a GPU that is not there. */
void values_idle_section(const char *path, const char *selector);

#endif
