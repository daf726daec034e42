/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of a job that change what Spillway does: the container, and the variables of
 * HAMi.
 */
#ifndef SPILLWAY_SURROUNDINGS_H
#define SPILLWAY_SURROUNDINGS_H

#include <stdbool.h>

#include "tools/doctor/pod.h"

/* Prints findings, as does the other. Neither keeps a job from running. */
void surroundings_container(void);
void surroundings_hami(char *const *environment, const struct pod *pod);
/* Says where what is preloaded of Spillway does nothing. */
void surroundings_preloaded(void);

#endif
