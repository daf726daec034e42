/* The switch by which Spillway does nothing in a process. */
#ifndef SPILLWAY_SHIM_DISABLED_H
#define SPILLWAY_SHIM_DISABLED_H

#include <stdbool.h>

/*
 * Returns whether there are nothing but trampolines: by SPILLWAY_DISABLE, or in a set-uid process,
 * unless the machine's file is enforced.
 */
bool shim_is_disabled(void);

#endif
