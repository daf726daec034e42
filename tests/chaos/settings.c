/* SPDX-License-Identifier: MIT */
/*
 * Live changes: limits, shares, pauses, evictions. The bound of a job is the memory that it may
 * hold in any case. It is raised before a higher limit is set, and lowered once the tool has said
 * that a lower one holds.
 */
#include "tests/chaos/conductor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { WORDS = 10, WORD = 24, EVERY = 30 };

static struct change {
	pid_t pid;      /* 0: none */
	uint64_t bound; /* of a new limit, else 0 */
	bool is_paused, was_killed;
	char output[32];
} changes[JOBS];

void settings_begin(void)
{
	board->bound[JOB_FIXED] = FIXED_LIMIT;
	board->bound[JOB_MOVING] = MOVING_MAX;
	for (int job = 0; job < JOBS; job++)
		snprintf(changes[job].output, sizeof(changes[job].output), "tool-%s.log",
		         job_names[job]);
}

static void start(enum job job, const char *verb, const char *const *options)
{
	const char *words[WORDS + 1] = {verb};
	int count = 1;

	while (options && *options && count < WORDS - 2)
		words[count++] = *options++;
	words[count++] = job_names[job];
	words[count] = NULL;
	changes[job].bound = 0;
	changes[job].was_killed = false;
	changes[job].pid = start_tool(changes[job].output, words);
	conductor.sets++;
}

static void set_memory(struct dice *dice)
{
	uint64_t limit = (4 + below(dice, 45)) * MIB, most = one_in(dice, 2) ? 0 : MOVING_MAX;
	uint64_t bound = most > limit ? most : limit;
	char text[2][WORD];
	const char *words[] = {"--memory", text[0], "--memory-max", text[1], NULL};

	snprintf(text[0], WORD, "%lluB", (unsigned long long)limit);
	snprintf(text[1], WORD, "%lluB", (unsigned long long)most);
	if (board->bound[JOB_MOVING] < bound)
		board->bound[JOB_MOVING] = bound;
	start(JOB_MOVING, "set", words);
	changes[JOB_MOVING].bound = bound;
}

static void set_share(enum job job, struct dice *dice)
{
	char text[WORD];
	const char *words[] = {"--share", text, NULL};

	snprintf(text, WORD, "%u", 50 + below(dice, 51));
	start(job, "set", words);
}

static void change(enum job job, struct dice *dice)
{
	static const char *const evict[] = {"--evict", NULL};
	uint32_t drawn = below(dice, 10);

	if (changes[job].is_paused) {
		changes[job].is_paused = false;
		start(job, "resume", NULL);
	} else if (drawn < 2) {
		changes[job].is_paused = true;
		start(job, "pause", one_in(dice, 2) ? evict : NULL);
	} else if (drawn < 4 || job == JOB_FIXED) {
		set_share(job, dice);
	} else {
		set_memory(dice);
	}
}

void settings_tick(struct dice *dice)
{
	for (enum job job = JOB_FIXED; job <= JOB_MOVING; job++) {
		bool is_time = one_in(dice, EVERY), is_killed = one_in(dice, 20 * EVERY);

		if (!changes[job].pid &&
		    (is_time || (changes[job].is_paused && one_in(dice, 10)))) {
			change(job, dice);
		} else if (changes[job].pid && is_killed) {
			kill(changes[job].pid, SIGKILL);
			changes[job].was_killed = true;
			conductor.tools_killed++;
		}
	}
}

/* Returns whether the tool says of each GPU that the limit that was set is the one that holds. */
static bool says_it_holds(const char *output)
{
	char line[300], limit[64];
	FILE *file = fopen(output, "r");
	bool holds = false;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "gpu %*d: limit %63[^,], share", limit) == 1)
			holds = !strstr(line, " in use: ");
	}
	if (file)
		fclose(file);
	return holds;
}

bool settings_reaped(pid_t pid, int status)
{
	for (int job = 0; job < JOBS; job++) {
		struct change *changed = &changes[job];

		if (changed->pid != pid)
			continue;
		changed->pid = 0;
		/*
		 * 1: a process did not follow in time, or there is none: nothing is known to hold.
		 */
		if (!changed->was_killed && (!WIFEXITED(status) || WEXITSTATUS(status) > 1))
			give_up("the tool ended with status %#x: see %s", status, changed->output);
		if (changed->bound && status == 0 && says_it_holds(changed->output)) {
			board->bound[job] = changed->bound;
			conductor.sets_held++;
		}
		return true;
	}
	return false;
}

void settings_end(void)
{
	for (enum job job = JOB_FIXED; job <= JOB_MOVING; job++) {
		int status;

		if (changes[job].pid && waitpid(changes[job].pid, &status, 0) == changes[job].pid)
			settings_reaped(changes[job].pid, status);
		/* A tool that was killed may have left it paused. */
		start(job, "resume", NULL);
		if (waitpid(changes[job].pid, &status, 0) == changes[job].pid)
			settings_reaped(changes[job].pid, status);
	}
}
