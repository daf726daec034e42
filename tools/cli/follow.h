/* SPDX-License-Identifier: MIT */
/*
 * After the override file changed: waiting until every process of the job obeys it, and printing
 * the limits in force then.
 */
#ifndef SPILLWAY_FOLLOW_H
#define SPILLWAY_FOLLOW_H

#include <stdint.h>

#include "core/config/config.h"
#include "tools/view/arguments.h"

/* How a complaint begins of an override that is not in force (JOB_CONFIG_NOT_TAKEN). */
#define FOLLOW_REFUSED "refused: "
#define FOLLOW_NS      UINT64_C(10000000000) /* the patience, unless it is given */
#define FOLLOW_ARGUMENT(timeout_ns)                                                       \
	{                                                                                 \
		"timeout", 0, "SECONDS", "How long to wait for the job's processes (10)", \
		    argument_duration, timeout_ns                                         \
	}

/*
 * Returns the path of the job's override file, which is the caller's; NULL after saying why not:
 * there is no such job, or no live process to obey.
 */
char *follow_override_path(const char *job);

/*
 * Waits, then prints limits and shares per GPU. Returns an exit status; faults have been printed.
 */
int follow(const char *job, uint64_t timeout_ns);
/* The same after a change of the override file. One that a process refuses is taken back. */
int follow_change(const char *job, uint64_t timeout_ns, const struct config_change *change);
/*
 * Follows in the same way until the job's memory has left the GPUs, as long as it moves at all, and
 * prints the rest. It is a failure if more stays than memory that can never move.
 */
int follow_eviction(const char *job, uint64_t timeout_ns);
/*
 * Waits until the memory that has left the GPUs is back, as far as there is room, as long as it
 * moves at all. Memory that does not move, or a process that does not follow, is no failure.
 */
void follow_return(const char *job, uint64_t timeout_ns);

#endif
