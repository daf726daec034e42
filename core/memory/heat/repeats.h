/* SPDX-License-Identifier: MIT */
/*
 * Repeats: the period of a program that launches the same again and again, exactly, with the same
 * memory, as most trainings do: it is known when it has come twice. Who launches the same in
 * another order or with other memory each time has none here, and its steps are found by
 * core/steps.
 *
 * Nothing here has a clock, takes a lock or calls the driver. A launch costs two look-ups.
 */
#ifndef SPILLWAY_REPEATS_H
#define SPILLWAY_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest period that is found, and how many launches are looked at until one begins. */
enum { REPEATS_LONGEST = 1 << 13, REPEATS_PATIENCE = 1 << 16 };

struct repeats;

/* Makes one, for free(). Returns NULL without memory. */
struct repeats *repeats_create(void);
/*
 * Takes a launch: a value that all launches with the same work and the same memory share. Returns
 * false once nothing has come back for so long that there is no period.
 */
bool repeats_take(struct repeats *repeats, uint64_t launch);
/*
 * Returns the launches of a period that has come twice, still goes on, and was more of what was
 * launched than all before it; or 0. *since: another number whenever another one began.
 */
size_t repeats_period(const struct repeats *repeats, uint64_t *since);

#endif
