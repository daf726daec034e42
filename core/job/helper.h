/*
 * The helper: one thread that owns this process's seat in the segment, watches the configuration
 * files, and tells those outside of the process what they ask. It makes no driver call.
 */
#ifndef SPILLWAY_JOB_HELPER_H
#define SPILLWAY_JOB_HELPER_H

#include <stdbool.h>

#define HELPER_NOT_IN_THE_BOOKS                                                             \
	"this process is not in the job's books: where memory is limited it holds none on " \
	"the GPU"

/*
 * Joins the job, in a seat of the helper, which is started for that and then waits for helper_go().
 * What is done to files is done before there is a second thread, because each page that a process
 * of several threads writes first interrupts the processors of the others. Returns a negative errno
 * where there is no helper.
 */
int helper_start(void);
/*
 * Says that the rest has started, and that from then on the configuration is the helper's, which
 * looks for that by itself: to wake it would take longer. Where the rest could not start, the
 * helper ends.
 */
void helper_go(bool has_started);
/* Forgets the helper, in a forked child. */
void helper_forked(void);

#endif
