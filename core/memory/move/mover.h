/* SPDX-License-Identifier: MIT */
/*
 * The mover: the thread that changes where memory is while the program runs. What it is asked for,
 * and what wakes it, comes by its mailbox (budget/wanted.h).
 *
 * urgent    a shrink, or room that a call waits for. Natural moments are preferred, but only for
 *           demote_deadline
 * natural   a call of the program that waited for its work has just returned. Little or nothing is
 *           in flight
 *
 * It holds the gate (cuda/gate.h), waits until nothing runs, moves what it can in a bounded time,
 * and opens it. While a capture is active it makes no driver call.
 */
#ifndef SPILLWAY_MOVER_H
#define SPILLWAY_MOVER_H

struct movable_kind;

/*
 * Moves memory of these kinds (ended by NULL) from now on; the thread starts when something is
 * wanted.
 */
void mover_begin(const struct movable_kind *const *kinds);
/*
 * Stops the mover when the process ends or was forked: no move any more. Waits, bounded, for one
 * that is under way.
 */
void mover_stop(void);

#endif
