/* SPDX-License-Identifier: MIT */
/*
 * Exclusive turns, as this process takes part in them: decides by gang.h, holds launches back
 * and has memory leave and come (core/budget/terms.h).
 *
 * It runs on the sharing thread (core/job/sharing.h) once turns are to be exclusive. A job without
 * a neighbour looks four times a second; its launches and allocations pay nothing.
 */
#ifndef SPILLWAY_EXCLUSIVE_H
#define SPILLWAY_EXCLUSIVE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Takes new settings from now on. Keeps the environment's ranks on other machines: threads of ours
 * do not read variables that the program may change. Called once, by the thread that starts the
 * job. Returns false without memory.
 */
bool exclusive_begin(void);
/*
 * Goes one step on. Returns after how long the next is due; UINT64_MAX: there are no such turns. By
 * the sharing thread.
 */
uint64_t exclusive_step(uint64_t now_ns);
/* Holds no launch back any more, because the process exits. */
void exclusive_hold_let_go(void);

#endif
