/* SPDX-License-Identifier: MIT */
/*
 * Frameworks that would take all memory of a GPU at once are told to take memory as they need it.
 */
#ifndef SPILLWAY_FRAMEWORKS_H
#define SPILLWAY_FRAMEWORKS_H

/* Sets variables in our environment, where the user has not said otherwise. */
void frameworks_be_modest(void);
/* Reports how much they will take, and which of the user's variables have them take all at once. */
void frameworks_report(void);

#endif
