/* SPDX-License-Identifier: MIT */
/*
 * The page: `spillway web`, and `stat --listen` with it or without.
 */
#ifndef SPILLWAY_WEB_H
#define SPILLWAY_WEB_H

#include <stdbool.h>
#include <stdio.h>

int command_web(int argc, char **argv);
/*
 * Serves /metrics at the address until a signal ends the process, and where has_page is set the
 * page and its data, too. job NULL: of all jobs. metrics() writes Prometheus' format.
 */
_Noreturn void web_export(const char *address, const char *job, bool has_page,
                          void (*metrics)(FILE *out, const char *job));

#endif
