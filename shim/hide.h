/* SPDX-License-Identifier: MIT */
/* Taking symbols out of what dlsym finds in this library. */
#ifndef SPILLWAY_SHIM_HIDE_H
#define SPILLWAY_SHIM_HIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Takes out what is missing: is_missing() is asked of each symbol, and told where it leads. */
void shim_hide(bool (*is_missing)(const char *symbol, uintptr_t address));

#endif
