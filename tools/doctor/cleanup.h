/* SPDX-License-Identifier: MIT */
/*
 * Removing the files of ended jobs in the state directory, which is memory where it is in /dev/shm.
 */
#ifndef SPILLWAY_CLEANUP_H
#define SPILLWAY_CLEANUP_H

enum { CLEANUP_KEEPS = 32 };

/*
 * Removes the files of the job. Returns 0, -EBUSY (a process lives, or died just now) or another
 * negative errno.
 */
int cleanup_job(const char *job);
/*
 * Removes all but the CLEANUP_KEEPS jobs that ended last. Silent: a file that cannot be removed
 * stays.
 */
void cleanup_old_jobs(void);
/* Removes the pages of killed processes of this user. Returns how many. */
int cleanup_told(void);
/* Removes rings of events of jobs that have no segment any more. Returns how many. */
int cleanup_rings(void);

#endif
