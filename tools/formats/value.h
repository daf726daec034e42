/* SPDX-License-Identifier: MIT */
/*
 * Values for people.
 */
#ifndef SPILLWAY_VALUE_H
#define SPILLWAY_VALUE_H

#include <stdio.h>

#include "tools/view/counters.h"

/* Returns a limit: "12.0 MiB", "none". */
const char *value_limit(uint64_t bytes, char *buf, size_t size);
/* Returns a share: "60 %". */
const char *value_share(uint64_t millipercent, char *buf, size_t size);
/*
 * Returns the share held: "34.2%", with "~" before it where it is an estimate and "*" behind it
 * where the share may not hold; "-" where it is not known.
 */
const char *value_share_held(const struct statistics *of, bool is_apart, char *buf, size_t size);
/* Prints the line about that "*". */
void value_explain_apart(FILE *out);
/* Says the meaning of "~" before a share, and the command that may take it away. */
void value_explain_estimated(FILE *out);
/* Returns measured GPU time; "-" where launches were not paced, so that there is no measurement. */
const char *value_busy(const struct statistics *total, char *buf, size_t size);
/*
 * Returns the number of steps: "1080", or "854+" where they were looked for in a part of the
 * launches.
 */
const char *value_steps(const struct statistics *of, char *buf, size_t size);
/* Returns a number in its unit's form. */
const char *value_in_unit(enum counter_unit unit, uint64_t number, char *buf, size_t size);

#endif
