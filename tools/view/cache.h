/* SPDX-License-Identifier: MIT */
/*
 * The user's folder for files that the tool makes once and makes again where they are gone:
 * $XDG_CACHE_HOME/spillway, or ~/.cache/spillway.
 */
#ifndef SPILLWAY_CACHE_H
#define SPILLWAY_CACHE_H

#include <limits.h>
#include <stdbool.h>

/* Fills in the path of a file there; "", and returns false, where no variable names the folder. */
bool cache_path(char path[PATH_MAX], const char *name);
/* Makes a folder and those above it. Returns false with errno. */
bool cache_make_folders(const char *path);

#endif
