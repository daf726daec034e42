/* SPDX-License-Identifier: MIT */
/*
 * The companion library: the functions of the installed driver that the shim does not know, because
 * the driver is newer. A program that is linked to one of them starts with it, and calls the
 * driver's function (shim/attach.c).
 *
 * It depends on nothing but the names. Root's lies beside the shim and serves all users. Else each
 * user has one in his cache, which `spillway run` makes.
 *
 * Example: of a driver with cuFoo and cuBar, which the shim lacks, ~/.cache/spillway/
 * libspillway-companion-HASH.so has both. A driver with cuFoo alone gets another file.
 */
#ifndef SPILLWAY_COMPANION_H
#define SPILLWAY_COMPANION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct companion {
	char **names; /* of the functions, sorted */
	int count;
	char shared[PATH_MAX]; /* root's file, perhaps not made yet */
	char file[PATH_MAX];   /* the one that has all names; "": it is to be made */
};

/*
 * Compares the functions of the driver with those of the shim. Returns whether the driver has some
 * that the shim lacks.
 */
bool companion_look(struct companion *companion, const char *shim, const char *driver);
/*
 * Makes the file where none has all names: root's, or the user's own. Returns false, and why, where
 * it cannot be made or cannot be preloaded.
 */
bool companion_make(struct companion *companion, bool is_shared, char *message, size_t size);

#endif
