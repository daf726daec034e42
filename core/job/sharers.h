/* SPDX-License-Identifier: MIT */
/*
 * Sharers: the processes that share a limit where the job has no name.
 *
 * They are those of the cache that HAMi gives, else of the Slurm job, else of the container (a pid
 * namespace that is not the machine's), else of the POSIX session. Processes with different limits
 * are different jobs. The cgroup is never asked: all panes of a terminal multiplexer share one, and
 * Slurm has one per task.
 *
 * A limit without a job's name is shared, as its giver meant it: a process could otherwise have the
 * whole limit again by starting another. The job's name is made of these sharers and of all limits,
 * resolved without a device. So processes that see other devices, and NVML's callers without CUDA,
 * come to the same name. A session is known by its number alone. The kernel gives the number to no
 * other process while a process of the session lives. The leader's start time is unknown to
 * processes that come after the leader has died. The name is decided after the devices are known,
 * because a limit on a device that a process does not see is none. It is decided before the job is
 * joined. A limit that comes later stays that of the job the process is in.
 */
#ifndef SPILLWAY_JOB_SHARERS_H
#define SPILLWAY_JOB_SHARERS_H

#include <stdint.h>

#include "core/config/config.h"

enum { SHARERS_MAX = 96 };

struct job_sharers {
	char name[CONFIG_NAME_MAX]; /* of their job: "session-1234-5f3a9c01" */
	char text[SHARERS_MAX];     /* for people: "POSIX session 1234" */
};

/* Finds those of the calling process. limits: as config_limits() says. */
void job_sharers_find(char *const *environment, uint64_t limits, struct job_sharers *sharers);

/* "/proc", unless a test has another. */
extern const char *job_sharers_proc;

#endif
