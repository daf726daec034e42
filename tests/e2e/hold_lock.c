/* SPDX-License-Identifier: MIT */
/*
 * hold_lock MS | stop: takes the lock of the segment of the job in SPILLWAY_JOB and prints "held".
 * It releases the lock after MS milliseconds, or stops until it is continued.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/state/directory.h"
#include "core/state/layout.h"

int main(int argc, char **argv)
{
	const char *job = getenv("SPILLWAY_JOB");
	int directory = directory_open(0, NULL, 0), fd;
	struct segment_header header;
	struct segment_file *file;
	uint64_t size;
	char message[512];

	if (argc != 2 || !job || directory < 0)
		return 2;
	fd = segment_open(directory, job, O_RDWR, &header, &size, message, sizeof(message));
	file = fd < 0 ? NULL : segment_map(fd);
	if (!file || segment_lock(file) != 0)
		return 1;
	printf("held\n");
	fflush(stdout);
	if (strcmp(argv[1], "stop") == 0)
		raise(SIGSTOP);
	else
		nanosleep(&(struct timespec){.tv_nsec = atol(argv[1]) * 1000000}, NULL);
	segment_unlock(file);
	return 0;
}
