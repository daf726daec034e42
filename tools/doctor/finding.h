/*
 * A finding of `spillway doctor`: a line that begins with "ok" or "no".
 */
#ifndef SPILLWAY_FINDING_H
#define SPILLWAY_FINDING_H

#include <stdbool.h>

/* Returns what it was given, so that findings add up. */
bool finding(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
