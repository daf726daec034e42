/* SPDX-License-Identifier: MIT */
/*
 * Reads a shared library: the libraries that it needs, the functions that it leaves undefined or
 * exports, and its texts. A file that is no library of this machine, or a damaged one, has none.
 */
#ifndef SPILLWAY_LIBRARY_READ_H
#define SPILLWAY_LIBRARY_READ_H

#include <stdbool.h>
#include <stddef.h>

struct library {
	const unsigned char *bytes;
	size_t size;
};

/* Maps a file. Returns false, with errno, where it cannot be read. */
bool library_map(struct library *library, const char *path);
void library_unmap(struct library *library);

/* Calls take() with the soname of each library that this one needs. */
void library_needed(const struct library *library, void (*take)(void *cookie, const char *soname),
                    void *cookie);
/* Calls take() with each undefined symbol and its version, "" where it has none. */
void library_undefined(const struct library *library,
                       void (*take)(void *cookie, const char *name, const char *version),
                       void *cookie);
/* Calls take() with each function that other libraries can use. */
void library_exported(const struct library *library, void (*take)(void *cookie, const char *name),
                      void *cookie);
/* Calls take() with each text of the library's constants that ends in a NUL. */
void library_texts(const struct library *library, void (*take)(void *cookie, const char *text),
                   void *cookie);

#endif
