/* SPDX-License-Identifier: MIT */
/*
 * The cost of preloading for a process without CUDA: `start ROUNDS NAME=PRELOAD...` runs /bin/true
 * under each value of LD_PRELOAD by turns and prints "NAME process_start NS", the median, for each.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static double run_ns(const char *preload)
{
	char program[] = "/bin/true";
	char *arguments[] = {program, NULL};
	char variable[4096];
	char *environment[] = {variable, NULL};
	struct timespec start, end;
	pid_t child;
	int status;

	snprintf(variable, sizeof(variable), "LD_PRELOAD=%s", preload);
	clock_gettime(CLOCK_MONOTONIC, &start);
	int error = posix_spawn(&child, program, NULL, NULL, arguments, environment);
	if (error || waitpid(child, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "start: %s: %s\n", program,
		        error ? strerror(error) : "it did not exit with 0");
		exit(1);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;
	int variants = argc - 2;
	char **variant = argv + 2;

	for (int v = 0; v < variants; v++)
		if (!strchr(variant[v], '='))
			rounds = 0;
	if (rounds <= 0) {
		fprintf(stderr, "usage: start ROUNDS NAME=PRELOAD...\n");
		return 2;
	}
	double *ns = calloc((size_t)rounds * variants, sizeof(*ns));
	if (!ns)
		return 1;
	for (int round = 0; round < rounds; round++)
		for (int v = 0; v < variants; v++)
			ns[v * rounds + round] = run_ns(strchr(variant[v], '=') + 1);
	for (int v = 0; v < variants; v++) {
		qsort(ns + v * rounds, rounds, sizeof(*ns), ascending);
		printf("%.*s process_start %.0f\n", (int)strcspn(variant[v], "="), variant[v],
		       ns[v * rounds + rounds / 2]);
	}
	free(ns);
	return 0;
}
