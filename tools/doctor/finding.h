/* SPDX-License-Identifier: MIT */
/*
 * Findings: lines on standard output, printed as the tool ends. Faults come first, each with a
 * command to try. For example, a line that begins with "no" (a fault) comes before all lines that
 * begin with "ok".
 */
#ifndef SPILLWAY_FINDING_H
#define SPILLWAY_FINDING_H

#include <stdbool.h>

enum finding_mark {
	FINDING_NO,   /* "no": a job cannot run, or not within its limits; doctor's status is 1 */
	FINDING_NOTE, /* "--": something that a job can do without */
	FINDING_OK,   /* "ok" */
};

/* Notes a line. */
void finding(enum finding_mark mark, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether no finding so far is FINDING_NO. */
bool finding_is_well(void);
/* Names the command to type against the finding before. */
void finding_try(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets the next command to type. */
void finding_next(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
