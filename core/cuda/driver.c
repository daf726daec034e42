/* SPDX-License-Identifier: MIT */
/*
 * The driver's functions as core/ calls them, empty until the shim, or a test's own definition, has
 * filled them in.
 */
#include "core/cuda/driver.h"

#undef driver /* the struct itself */
struct driver driver;
