/* SPDX-License-Identifier: MIT */
/*
 * Answers: what calls of the program ask the mover for, and wait for. By the mover alone.
 */
#ifndef SPILLWAY_ANSWER_H
#define SPILLWAY_ANSWER_H

/* Answers all that is asked for now (budget/wanted.h). */
void answer_all(void);

#endif
