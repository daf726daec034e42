/* SPDX-License-Identifier: MIT */
/*
 * Root's place for turns: a file per GPU by which the jobs of several users take turns, so that
 * their shares hold together (core/pages/turns.h).
 */
#ifndef SPILLWAY_SETUP_H
#define SPILLWAY_SETUP_H

#include <stdbool.h>

#include "tools/doctor/driver_report.h"

struct setup {
	bool is_wanted, is_dry; /* dry: prints the changes, and makes none */
	const char *group;      /* the group that may write the files; NULL: not given */
};

/*
 * Makes the node's directory, a turn file for each GPU and the tmpfiles.d file that makes them at
 * each boot. A file that is as it should be stays. The first failure ends the tool.
 */
void setup_make(const struct setup *setup, const struct driver_report *report);

#endif
