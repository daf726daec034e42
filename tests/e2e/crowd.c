/* SPDX-License-Identifier: MIT */
/*
 * crowd slots | lock: keeps other processes out of the job in SPILLWAY_JOB until it is killed. It
 * takes every process slot of the job's segment, or the lock under which a process joins. Prints
 * "held".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "core/state/layout.h"

/*
 * One process frees as many process slots as its thread can have robust mutexes, when it is killed.
 */
enum { HELPERS = 4 };

static bool take_some(const char *job)
{
	struct segment *segment;

	for (int i = 0; i < SEGMENT_SLOTS / HELPERS; i++)
		if (segment_join(job, NULL, NULL, &segment, NULL, 0) != 0)
			return false;
	return true;
}

static bool take_slots(const char *job)
{
	for (int i = 0; i < HELPERS; i++) {
		int done[2];
		char taken = 0;

		if (pipe(done) != 0)
			return false;
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			taken = take_some(job);
			if (write(done[1], &taken, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		if (read(done[0], &taken, 1) != 1 || !taken)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const char *job = getenv("SPILLWAY_JOB");

	if (argc != 2 || !job)
		return 2;
	if (strcmp(argv[1], "slots") == 0 ? !take_slots(job)
	                                  : segment_job_lock(directory_open(1, NULL, 0), job) < 0)
		return 1;
	printf("held\n");
	fflush(stdout);
	for (;;)
		pause();
}
