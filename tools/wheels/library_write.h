/* SPDX-License-Identifier: MIT */
/*
 * Writes a shared library whose functions do no work: each jumps to softgpu_refuse() with its
 * record (stand_in.h). No compiler takes part, because a user's machine may have none.
 */
#ifndef SPILLWAY_LIBRARY_WRITE_H
#define SPILLWAY_LIBRARY_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/wheels/stand_in.h"

struct library_function {
	const char *name, *version; /* version "": none */
	enum stand_in_kind kind;
};

/* Writes the file. Each answer is STATUS. Returns false, with errno, where it cannot be written. */
bool library_write(const char *path, const char *soname, const struct library_function *functions,
                   size_t count, int status);

#endif
