/* SPDX-License-Identifier: MIT */
/*
 * Where the shim and the software GPU lie, seen from the tool's own executable: build/spillway
 * finds build/lib/, PREFIX/bin/spillway finds PREFIX/lib/spillway/.
 */
#ifndef SPILLWAY_PATHS_H
#define SPILLWAY_PATHS_H

#include <limits.h>
#include <stdbool.h>

#define PATHS_DEFAULT "/bin:/usr/bin" /* as execvp() has it where PATH is not set */

struct paths {
	char shim[PATH_MAX];  /* libspillway.so, or the one for this C library alone */
	char alias[PATH_MAX]; /* libspillway-alias.so */
};

/*
 * Finds them. Returns false, and why in message, when either is missing or LD_PRELOAD cannot hold
 * its path.
 */
bool paths_shim(struct paths *paths, char *message, size_t size);
/* Finds the software GPU's folder and its libcuda.so.1 in it. */
bool paths_softgpu(char folder[PATH_MAX], char driver[PATH_MAX], char *message, size_t size);
/* Finds the folder of the programs that are installed with the software GPU. */
bool paths_bundled(char folder[PATH_MAX]);
/*
 * Returns the program's path where it is one that is installed with the software GPU, and no other
 * of its name is found as a shell would; else its name.
 */
const char *paths_try(const char *program, char found[PATH_MAX]);
/* Returns whether a file has the name of one of the shims. */
bool paths_is_shim(const char *path);
/* Returns whether a version of glibc is one that needs no other libraries of its own: "2.34". */
bool paths_is_2_34(const char *version);
/* Returns the text behind the last slash. */
const char *paths_base(const char *path);
/* Finds PROGRAM as a shell would. Returns false with errno when it would not. */
bool paths_program(const char *program, char found[PATH_MAX]);

#endif
