/* SPDX-License-Identifier: MIT */
/*
 * A pod: a container whose preloaded library is libvgpu.so, as HAMi, its DRA driver, KAI and
 * Volcano have it.
 */
#ifndef SPILLWAY_POD_H
#define SPILLWAY_POD_H

#include <limits.h>
#include <stdbool.h>

struct pod {
	char library[PATH_MAX]; /* libvgpu.so, as it is preloaded; "": this is no pod */
	bool is_ours;           /* it is Spillway's, not HAMi-core's */
	char **environment;     /* with the container's variables */
};

/* Finds out whether we are in one. */
struct pod pod_find(void);
/* Names the library, the container's limits, and the findings of its monitor and the node. */
void pod_explain(const struct pod *pod);

#endif
