/* SPDX-License-Identifier: MIT */
/*
 * The surroundings of a job that change what Spillway does: the container, and the variables of
 * HAMi.
 */
#ifndef SPILLWAY_SURROUNDINGS_H
#define SPILLWAY_SURROUNDINGS_H

#include <stdbool.h>

#include "tools/doctor/pod.h"

/* Prints findings, as does the other. needs_softgpu: there is no driver. */
void surroundings_container(bool needs_softgpu);
void surroundings_hami(char *const *environment, const struct pod *pod);
/* Says where what is preloaded of Spillway does nothing. */
void surroundings_preloaded(void);

#endif
