/*
 * What stands around a job and changes what Spillway does: the container, and the variables of HAMi.
 */
#ifndef SPILLWAY_SURROUNDINGS_H
#define SPILLWAY_SURROUNDINGS_H

#include <stdbool.h>

/* Each prints findings. None of them keeps a job from running. */
void surroundings_container(void);
void surroundings_hami(char *const *environment);

/* Reads how many bytes are charged to this process's memory cgroup now. Returns whether one could be read. */
bool surroundings_cgroup_memory(unsigned long long *bytes);

#endif
