/* SPDX-License-Identifier: MIT */
/*
 * Attaching: the tables of entry points, filled at the first call of any of them.
 */
#ifndef SPILLWAY_SHIM_ATTACH_H
#define SPILLWAY_SHIM_ATTACH_H

#include "shim/driver_open.h"
#include "shim/shim.h"

enum { TRAMPOLINE_BYTES = 16, GUARD_BYTES = 64 };

/*
 * The tables of trampolines.S: the exported functions one after the other, the word before each
 * hook, and where each trampoline leads. Each is a distance from its own place, which the loader
 * need not write, so a process without CUDA pays nothing for them. Those of a hook are likewise,
 * and are walked once.
 */
extern const struct trampolines {
	int32_t functions, guards, target;
} shim_trampolines;
extern void *shim_target[ENTRY_COUNT];

struct hook {
	int32_t trampoline, function;
};

/* Our hook for each entry point, or NULL. Written by attach.c alone. */
extern void *shim_hook[ENTRY_COUNT];
/* Code that calls past the hooks: the driver's, and ours. */
extern struct code shim_inside[2];

/*
 * Opens the driver and fills the tables, once per process. path: the driver's file as the program
 * itself named it, NULL when it did not. from: shim_trampolines, given by the caller, because they
 * are above us.
 */
void shim_attach(const char *path, const struct trampolines *from);
/* Resolves an entry point; called by trampolines.S at its first call. Returns where to go. */
void *shim_resolve(uint32_t entry, const struct trampolines *from);

/*
 * A function of the companion library: one that entry_points.h does not list, because the driver is
 * newer. Laid out as tools/wheels/stand_in.h writes it.
 */
struct unlisted {
	int32_t name; /* bytes from here to the function's name */
	int32_t unused;
	void *address; /* where its calls go; NULL: they are resolved first */
};

/* Resolves such a function. Called by spillway_unlisted of trampolines.S. Returns where to go. */
void *shim_resolve_unlisted(struct unlisted *function, const struct trampolines *from);
/*
 * Returns whether a form that we do not know is kept from the program, as if the driver were older.
 * Says so once, or that it is not; by: how the program gets it.
 */
bool shim_withholds(const char *symbol, const char *by);

/*
 * Refuses every further call of the driver with CUDA_ERROR_NOT_PERMITTED: the process cannot keep
 * the rules of the machine's file.
 */
void shim_refuse(void);

/*
 * Returns our exported symbol for the hooked function that the driver has at this address, else the
 * address. *known: it is that of a symbol in the table.
 */
void *shim_address_for(void *real, bool *known);

#endif
