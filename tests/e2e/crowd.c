/*
 * crowd seats | lock: keeps others out of the job in SPILLWAY_JOB until it is killed: takes every seat of its segment,
 * or the lock under which one joins. Prints "held".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "core/state/layout.h"

static bool take_seats(const char *job)
{
	struct segment *segment;

	for (int i = 0; i < SEGMENT_SEATS; i++)
		if (segment_join(job, NULL, NULL, &segment, NULL, 0) != 0)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	const char *job = getenv("SPILLWAY_JOB");

	if (argc != 2 || !job)
		return 2;
	if (strcmp(argv[1], "seats") == 0 ? !take_seats(job)
	                                  : segment_job_lock(directory_open(1, NULL, 0), job) < 0)
		return 1;
	printf("held\n");
	fflush(stdout);
	for (;;)
		pause();
}
