/* SPDX-License-Identifier: MIT */
/*
 * Variables of the environment that choose places: a directory, a driver.
 */
#ifndef SPILLWAY_PLACE_H
#define SPILLWAY_PLACE_H

#include <stdbool.h>

/*
 * Returns the variable's value; NULL where it is missing or empty, in a set-uid process, and after
 * place_bind(), which may have given the place of a job's state.
 */
const char *place_variable(const char *name);
/*
 * Binds the process to the usual places, whatever its environment says; for good. directory: where
 * jobs keep their state, for as long as the process lives; "": the usual place.
 */
void place_bind(const char *directory);
bool place_is_bound(void);

#endif
