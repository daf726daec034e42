/* SPDX-License-Identifier: MIT */
/*
 * Lists of preloaded libraries: LD_PRELOAD, and /etc/ld.so.preload of the machine.
 */
#ifndef SPILLWAY_PRELOAD_H
#define SPILLWAY_PRELOAD_H

#include <stddef.h>

#define PRELOAD_MACHINE_LIST "/etc/ld.so.preload"

/* Reads the machine's list; "" where there is none. */
void preload_machine_list(char *list, size_t size);
/*
 * Returns the entry of a list that has the library's name, of this installation or another; of the
 * two shims either is the other. NULL: none is there and loads. The caller frees it.
 */
char *preload_find(const char *list, const char *library);

#endif
