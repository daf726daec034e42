/* Taking symbols out of what dlsym finds in this library. */
#ifndef SPILLWAY_SHIM_HIDE_H
#define SPILLWAY_SHIM_HIDE_H

#include <stdbool.h>

void shim_hide(bool (*is_missing)(const char *symbol));

#endif
