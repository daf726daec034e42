/* SPDX-License-Identifier: MIT */
/*
 * restless FILE LEAST MOST MILLISECONDS [LINE...]: writes a configuration with a memory limit at
 * random between LEAST and MOST bytes, and the LINEs behind it. It does so again after each
 * MILLISECONDS, until it is killed. A whole file at a time, as an editor does it; ELASTIC_RING
 * names a program that has jobs look at it.
 */
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* SplitMix64. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void ring(void)
{
	char *const argv[] = {getenv("ELASTIC_RING"), NULL};
	pid_t child;

	if (argv[0] && posix_spawn(&child, argv[0], NULL, NULL, argv, environ) == 0)
		waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	uint64_t state = 1, least, most;
	struct timespec pause = {0};
	char next[4096];
	FILE *file;

	if (argc < 5) {
		fprintf(stderr, "Usage: restless FILE LEAST MOST MILLISECONDS [LINE...]\n");
		return 2;
	}
	least = strtoull(argv[2], NULL, 10);
	most = strtoull(argv[3], NULL, 10);
	pause.tv_nsec = atol(argv[4]) * 1000000;
	snprintf(next, sizeof(next), "%s.next", argv[1]);
	for (;;) {
		file = fopen(next, "w");
		if (!file)
			break;
		fprintf(file, "[gpu]\nmemory = %" PRIu64 "B\n",
		        least + draw(&state) % (most - least + 1));
		for (int i = 5; i < argc; i++)
			fprintf(file, "%s\n", argv[i]);
		if (fclose(file) != 0 || rename(next, argv[1]) != 0)
			break;
		ring();
		nanosleep(&pause, NULL);
	}
	perror("restless");
	return 1;
}
