/* SPDX-License-Identifier: MIT */
/*
 * Reading an INI file that one of our own commands wrote, in a state directory: its user may be a
 * stranger to root.
 */
#ifndef SPILLWAY_INI_FILE_H
#define SPILLWAY_INI_FILE_H

#include <ini.h>

/*
 * Reads it, if it is our own regular file. 0, the first bad line, or a negative errno (own_file.h).
 */
int ini_read(const char *path, ini_handler handler, void *cookie);

/*
 * Returns the selector of a section "gpu" or "gpu SELECTOR", "" or that; NULL: it is another
 * section.
 */
const char *ini_selector(const char *section);
/* Returns the section of a selector; the caller frees it. */
char *ini_section(const char *selector);

#endif
