/* SPDX-License-Identifier: MIT */
/*
 * Removing what ended jobs left in the state directory, which is memory where it is in /dev/shm.
 */
#ifndef SPILLWAY_CLEANUP_H
#define SPILLWAY_CLEANUP_H

enum { CLEANUP_KEEPS = 32 };

/*
 * Removes what is left of the job. Returns 0, -EBUSY (a process lives, or died just now) or another
 * negative errno.
 */
int cleanup_job(const char *job);
/* Removes all but the CLEANUP_KEEPS jobs that ended last. Silent: what cannot be removed stays. */
void cleanup_old_jobs(void);
/* Removes what killed processes of this user told everybody. Returns how many pages it removed. */
int cleanup_told(void);
/* Removes rings of events whose job has no segment any more. Returns how many. */
int cleanup_rings(void);

#endif
