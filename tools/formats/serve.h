/* SPDX-License-Identifier: MIT */
/*
 * A page served over HTTP: GET and HEAD of /metrics, and nothing else.
 */
#ifndef SPILLWAY_SERVE_H
#define SPILLWAY_SERVE_H

#include <stdio.h>

/* Ends with a usage error unless it is ADDRESS:PORT in numbers. */
void serve_check(const char *address);
/*
 * Serves until a signal ends us; what cannot be listened on ends the tool. page() writes the page.
 */
_Noreturn void serve(const char *address, void (*page)(FILE *out, void *cookie), void *cookie);

#endif
