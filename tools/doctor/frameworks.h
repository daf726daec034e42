/* SPDX-License-Identifier: MIT */
/*
 * Frameworks that would take all memory of a GPU at once are told to take what they need.
 */
#ifndef SPILLWAY_FRAMEWORKS_H
#define SPILLWAY_FRAMEWORKS_H

/* Sets variables in our environment, where the user has not said otherwise. */
void frameworks_be_modest(void);
/* Says how much they will take, and what of the user's environment has them take all at once. */
void frameworks_report(void);

#endif
