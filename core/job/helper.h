/* SPDX-License-Identifier: MIT */
/*
 * The helper: one thread that owns this process's slot in the segment, watches the configuration
 * files, and answers requests from outside of the process. It makes no driver call.
 */
#ifndef SPILLWAY_JOB_HELPER_H
#define SPILLWAY_JOB_HELPER_H

#include <stdbool.h>

#define HELPER_NOT_IN_THE_BOOKS                                                             \
	"this process is not in the job's books: where memory is limited it holds none on " \
	"the GPU"

/*
 * Starts the helper, early: until there is a slot to take it has come. Returns a negative
 * errno where there is no helper.
 */
int helper_start(void);
/*
 * Joins the job, in a slot of the helper, which then waits for helper_go(). All but that
 * slot is the caller's work, while the helper does nothing: a mapping that goes, in a
 * process of which two threads work, interrupts the other's processor.
 */
void helper_join(void);
/*
 * Says that the rest has started, and that from then on the configuration is the helper's, which
 * looks for that by itself: to wake it would take longer. Where the rest could not start, the
 * helper ends.
 */
void helper_go(bool has_started);
/* Has the settings read again in this round, as if a file had changed. On the helper. */
void helper_reload(void);

#endif
