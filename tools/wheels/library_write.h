/* SPDX-License-Identifier: MIT */
/*
 * Writes a shared library whose functions do no work: each loads the address of its record and
 * goes on in a function of another library. No compiler takes part, because a user's machine may
 * have none.
 *
 *	stand-ins   for libraries that the software GPU has not: softgpu_refuse() gets the record
 *	            as its argument (stand_in.h)
 *	companion   for functions of a driver that the shim does not know: spillway_unlisted gets
 *	            the record in a register, and the arguments stay (shim/attach.c)
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

struct library_form {
	const char *soname;
	const char *needed, *common; /* the library that all functions go on in, its function */
	/* The record's address is no argument; and the library loads where COMMON is missing. */
	bool keeps_arguments;
	int status; /* in each record */
};

/* Writes the file. Returns false, with errno, where it cannot be written. */
bool library_write(const char *path, const struct library_form *form,
                   const struct library_function *functions, size_t count);

#endif
