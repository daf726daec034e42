/* SPDX-License-Identifier: MIT */
/*
 * A launcher's lock on a job's name, held while its program runs. Between start and the first CUDA
 * call a job has no live process yet, and two launchers must not take the same name in that time.
 * For example, a second `spillway run --name bert` waits until the first has written the limits,
 * and takes its token.
 *
 * A lock on DIR/JOB.launch: exclusive while the job is being set up, shared while it runs. It holds
 * the run's token, "PID-NS" in hexadecimal, which all launchers of the run hand to their programs
 * as SPILLWAY_RUN: programs one after the other are one run with one set of statistics.
 */
#ifndef SPILLWAY_NAME_LOCK_H
#define SPILLWAY_NAME_LOCK_H

#include <stdbool.h>

enum { NAME_LOCK_TOKEN_MAX = 48 };

/*
 * Takes a name. Returns false when it is taken and join is not set. *first: no other launcher holds
 * it; the token is new then, else theirs. Trouble with the file ends the tool. Released at exit at
 * the latest.
 */
bool name_lock_take(const char *job, bool join, bool *first, char token[NAME_LOCK_TOKEN_MAX]);
/* Shares the name when set-up is done: other launchers may join. */
void name_lock_share(void);
void name_lock_release(void);

#endif
