/* SPDX-License-Identifier: MIT */
/*
 * Findings: lines on standard output, printed as the tool ends: what is wrong comes first, each
 * with a command to try.
 */
#ifndef SPILLWAY_FINDING_H
#define SPILLWAY_FINDING_H

#include <stdbool.h>

/* Notes a line that begins with "ok" or "no". Returns good. */
bool finding(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Names what to type against the finding before. */
void finding_try(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets what is to be typed next. */
void finding_next(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
