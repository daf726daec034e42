/* SPDX-License-Identifier: MIT */
/*
 * Placement: which memory is to be on the host. A survey tells the memory that the program's
 * kernels use in a step (survey.h), and the placement follows from that (weigh.h).
 * Without a survey it follows from heat.
 *
 * The first spill starts a survey, and so does a large change, or time. Its result is an order in
 * which memory leaves. Where `placement` is auto and the gain would be small, nothing is exchanged
 * any more: all memory that is used in every step is alike. Where memory has moved another survey
 * measures the effect; if kernels take longer than before it goes back, and stays. For example, a
 * step of 100 ms that becomes 110 ms is put back. By the mover alone.
 */
#ifndef SPILLWAY_PLACEMENT_H
#define SPILLWAY_PLACEMENT_H

#include "core/memory/arena/heat.h"

/* Fills in what the mover asks. */
void placement_add_calls(struct placement_calls *calls);

#endif
