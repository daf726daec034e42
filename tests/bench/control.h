/* SPDX-License-Identifier: MIT */
/*
 * A limit that this process changes for itself while it runs. It replaces the file in
 * SPILLWAY_CONFIG, as a person with an editor would. It reads the result in the segment of the job
 * in SPILLWAY_JOB, as `spillway stat` does.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether there is a Spillway to be told. */
bool control_is_possible(void);
/*
 * Sets the limit, whether all is to be on the host, and what BENCH_SETTINGS says, if anything:
 * lines of the file.
 */
void control_change(uint64_t limit, bool evicted);
/*
 * A counter of the job on its first device, by the name of its field; ends the program where there
 * is none.
 */
uint64_t control_counter(const char *name);
/*
 * Waits until the counter is at least (or at most) so many; ends the program when it takes
 * unreasonably long.
 */
void control_wait(const char *name, bool at_least, uint64_t value);

#endif
