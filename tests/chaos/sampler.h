/* SPDX-License-Identifier: MIT */
/*
 * A process that reads the software GPU's own books a thousand times a second and compares each
 * job's memory with its bound.
 */
#ifndef CHAOS_SAMPLER_H
#define CHAOS_SAMPLER_H

#include <sys/types.h>

pid_t sampler_start(void);

#endif
