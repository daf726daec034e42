/* SPDX-License-Identifier: MIT */
/* Refusing: an errno for the program, a sentence for people. Private. */
#ifndef SPILLWAY_REFUSE_H
#define SPILLWAY_REFUSE_H

#include <stddef.h>

/* Fills message (may be NULL) and returns error. */
int state_refuse(int error, char *message, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
