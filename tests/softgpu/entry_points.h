/* SPDX-License-Identifier: MIT */
/* The table of exported functions. It stays clear of cuda.h: here they are names, not types. */
#ifndef SOFTGPU_ENTRY_POINTS_H
#define SOFTGPU_ENTRY_POINTS_H

#include <stdbool.h>

struct entry_point {
	const char *symbol;
	const char *name; /* for cuGetProcAddress; empty: not found there */
	int version;
	bool per_thread;
	int (*address)(void);
};

/* Ends with a NULL symbol. */
extern const struct entry_point entry_points[];

#endif
