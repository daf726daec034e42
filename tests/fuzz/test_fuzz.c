/* SPDX-License-Identifier: MIT */
/*
 * The driver of all fuzz targets. As a test it runs each for a moment, in a process of its own:
 * test_fuzz [TARGET]. Built by clang for libFuzzer (`make fuzz`), FUZZ says which target is meant.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static const struct fuzz_target *const targets[] = {
    &fuzz_handle, &fuzz_page, &fuzz_ptx, &fuzz_ring, &fuzz_ring_state, &fuzz_segment, &fuzz_text,
};

enum { TARGETS = sizeof targets / sizeof *targets };

uint64_t fuzz_random(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static const struct fuzz_target *driver_find(const char *name)
{
	for (size_t i = 0; name && i < TARGETS; i++)
		if (strcmp(targets[i]->name, name) == 0)
			return targets[i];
	fprintf(stderr, "%s: no fuzz target; there are:\n", name ? name : "FUZZ is not set");
	for (size_t i = 0; i < TARGETS; i++)
		fprintf(stderr, "  %-12s %s\n", targets[i]->name, targets[i]->reads);
	exit(2);
}

#ifdef FUZZ_BY_HAND

static const struct fuzz_target *chosen;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	chosen = driver_find(getenv("FUZZ"));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	chosen->run(data, size);
	return 0;
}

#else

/* The good input comes last, too: no other has changed how it is read. */
static void driver_run(const struct fuzz_target *target)
{
	uint8_t input[FUZZ_INPUT_MAX];

	target->run(input, target->good(input));
	for (int round = 0; round < target->rounds; round++)
		target->run(input, target->change(input));
	target->run(input, target->good(input));
}

static int driver_run_apart(const struct fuzz_target *target)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		driver_run(target);
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
		printf("%s: %d inputs of %s: wait status %d\n", target->name, target->rounds + 2,
		       target->reads, status);
		return 1;
	}
	printf("%s: %d inputs\n", target->name, target->rounds + 2);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc > 1) {
		driver_run(driver_find(argv[1]));
		return 0;
	}
	for (size_t i = 0; i < TARGETS; i++)
		failed |= driver_run_apart(targets[i]);
	return failed;
}

#endif
