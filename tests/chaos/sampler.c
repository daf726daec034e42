/* SPDX-License-Identifier: MIT */
#include "tests/chaos/sampler.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/chaos/board.h"
#include "tests/softgpu/machine.h"

enum { PROCESSES = 128, PERIOD_NS = 1000000 };

/*
 * The board's answers; taken before and after the books, so that a change between is within both.
 */
struct said {
	int pid[SLOTS];
	uint64_t unrefused[SLOTS], bound[JOBS];
};

static void look(struct said *said)
{
	for (int i = 0; i < SLOTS; i++) {
		said->unrefused[i] = board->slot[i].unrefused;
		said->pid[i] = board->slot[i].pid;
	}
	for (int i = 0; i < JOBS; i++)
		said->bound[i] = board->bound[i];
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int slot_of(int pid, const struct said *before, const struct said *after)
{
	for (int i = 0; i < SLOTS; i++)
		if (pid == before->pid[i] || pid == after->pid[i])
			return i;
	return -1;
}

/* They stand still, so that the conductor finds them as they are. */
static void tell(enum job job, uint64_t held, uint64_t bound, const struct softgpu_truth *truth,
                 int count, const struct said *before, const struct said *after)
{
	size_t at, size = sizeof(board->sampler_failure);
	char *text = board->sampler_failure;

	for (int i = 0; i < count; i++) {
		int slot = slot_of(truth[i].pid, before, after);

		if (slot >= 0 && job_of(slot) == job)
			kill(truth[i].pid, SIGSTOP);
	}
	at = (size_t)snprintf(text, size,
	                      "job %s holds %llu bytes, expected at most %llu:", job_names[job],
	                      (unsigned long long)held, (unsigned long long)bound);
	for (int i = 0; i < count && at < size; i++) {
		int slot = slot_of(truth[i].pid, before, after);

		if (slot < 0 || job_of(slot) != job)
			continue;
		at += (size_t)snprintf(
		    text + at, size - at, " process %d (pid %d) %llu of which %llu unrefused,",
		    slot, truth[i].pid, (unsigned long long)truth[i].physical_bytes,
		    (unsigned long long)larger(before->unrefused[slot], after->unrefused[slot]));
	}
	board->sampler_failed = 1;
}

static void sample(void)
{
	struct softgpu_truth truth[PROCESSES];
	uint64_t held[JOBS] = {0}, bound[JOBS];
	struct said before, after;
	int count;

	look(&before);
	count = machine_truth(0, truth, PROCESSES);
	look(&after);
	if (count < 0)
		return;
	for (int i = 0; i < JOBS; i++)
		bound[i] = larger(before.bound[i], after.bound[i]);
	for (int i = 0; i < count && i < PROCESSES; i++) {
		int slot = slot_of(truth[i].pid, &before, &after);

		if (slot < 0)
			continue;
		held[job_of(slot)] += truth[i].physical_bytes;
		bound[job_of(slot)] += larger(before.unrefused[slot], after.unrefused[slot]);
	}
	for (int i = 0; i < JOBS; i++) {
		struct sampled *sampled = &board->sampled[i];
		bool is_over = i != JOB_NONE && held[i] > bound[i];

		sampled->samples++;
		sampled->peak = larger(sampled->peak, held[i]);
		if (!is_over)
			continue;
		sampled->over = larger(sampled->over, held[i] - bound[i]);
		if (!board->sampler_failed)
			tell((enum job)i, held[i], bound[i], truth, count, &before, &after);
	}
}

static _Noreturn void run(void)
{
	struct timespec next;

	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &next);
		next.tv_nsec += PERIOD_NS;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		sample();
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}

pid_t sampler_start(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	run();
}
