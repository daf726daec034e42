/* SPDX-License-Identifier: MIT */
/* The switch by which Spillway does nothing in a process. */
#ifndef SPILLWAY_SHIM_DISABLED_H
#define SPILLWAY_SHIM_DISABLED_H

#include <stdbool.h>

/*
 * Returns whether there are nothing but trampolines: by SPILLWAY_DISABLE, in a set-uid process, or
 * because another Spillway is preloaded before this one; unless the machine's file is enforced.
 */
bool shim_is_disabled(void);

#endif
