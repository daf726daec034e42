/*
 * Heat: which memory the program's kernels, copies and graphs use, sampled from what they are given.
 *
 * A launch's parameters are scanned for values inside an arena; a hit marks the whole run (allocation or slab) as
 * used now. Memory whose pointers nobody sees (device-side tables) is unknown: warm, not cold.
 */
#ifndef SPILLWAY_HEAT_H
#define SPILLWAY_HEAT_H

#include <stdint.h>

/* Time in units of about a millisecond since the process's first look; never 0. */
uint32_t heat_now(void);

enum heat { HEAT_COLD, HEAT_WARM, HEAT_HOT };

/* Of a run last touched then (0: never), as of now. */
enum heat heat_of(uint32_t touched, uint32_t now);

#endif
