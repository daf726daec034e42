/*
 * A launcher's claim on a job's name, held while its program runs: between start and the first CUDA
 * call a job has no live process yet, and two launchers must not take the same name in that time.
 *
 * A lock on DIR/JOB.launch: exclusive while the job is being set up, shared while it runs.
 */
#ifndef SPILLWAY_CLAIM_H
#define SPILLWAY_CLAIM_H

#include <stdbool.h>

/*
 * False when the name is taken and join is not set. *first: no other launcher holds it. Trouble
 * with the file ends the tool. Released at exit at the latest.
 */
bool claim_take(const char *job, bool join, bool *first);
/* Set-up is done: others may join. */
void claim_share(void);
void claim_release(void);

#endif
