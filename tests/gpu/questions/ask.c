/* SPDX-License-Identifier: MIT */
/*
 * ask [--short] [--json | --tsv | --list] [TOPIC | NAME]...: puts the questions to the driver, each
 * in a process of its own, and prints the answers. It puts all of them, those of a topic, or those
 * with names that begin so.
 *
 * --short         sizes and counts that suit the software GPU
 * --list          puts none, and prints a line for each: name, topic, risk, what it asks, the
 *                 answer counted on, what is done with it, what is to be changed with another, with
 *                 tabs between
 * --seconds N     how long a question may take (20)
 *
 * Ends with 1 if a process died, or there is no device: answers all the same.
 */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <stdio.h>
#include <string.h>

bool short_form;

static const struct {
	const char *name;
	const struct question *questions;
} topics[] = {
    {"host_memory", host_memory_questions},
    {"mixed", mixed_questions},
    {"async", async_questions},
    {"wait", wait_questions},
    {"atomics", atomic_questions},
    {"moved", moved_questions},
    {"sharing", sharing_questions},
    {"speed", speed_questions},
    {"costs", cost_questions},
    {"newer", newer_questions},
};
enum { TOPICS = sizeof(topics) / sizeof(*topics) };

static void list(const struct question *q, const char *topic)
{
	printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", q->name, topic, q->risk, q->asks,
	       q->counted_on ? q->counted_on : "", q->then, q->counted_on ? q->otherwise : "");
}

static void put(const struct question *q)
{
	if (!apart_begin(q->name))
		return;
	if (gpu_open(q->name)) {
		attempt_begin();
		q->ask(q);
	}
	apart_end();
}

/* words: NULL-ended; none: everything is wanted */
static bool wanted(const struct question *q, const char *topic, char **words)
{
	if (!*words)
		return true;
	for (; *words; words++)
		if (strcmp(topic, *words) == 0 || strncmp(q->name, *words, strlen(*words)) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const char *format = NULL;
	bool only_list = false;
	long seconds = 20;
	unsigned count = 0;
	char **words = argv + 1;

	for (; *words && strncmp(*words, "--", 2) == 0; words++) {
		if (strcmp(*words, "--short") == 0)
			short_form = true;
		else if (strcmp(*words, "--list") == 0)
			only_list = true;
		else if (strcmp(*words, "--seconds") == 0 && words + 1 < argv + argc)
			seconds = program_number("seconds", *++words, 1, 3600);
		else
			format = *words;
	}
	if (!apart_format(format, (int)seconds)) {
		fprintf(stderr, "usage: ask [--short] [--seconds N] [--json | --tsv | --list] "
		                "[TOPIC | NAME]...\n");
		return 2;
	}
	if (!only_list) {
		gpu_choose_host();
		if (!gpu_was_there()) {
			apart_finish();
			return 1;
		}
	}
	for (int t = 0; t < TOPICS; t++) {
		for (const struct question *q = topics[t].questions; q->name; q++) {
			if (!wanted(q, topics[t].name, words))
				continue;
			count++;
			if (only_list)
				list(q, topics[t].name);
			else
				put(q);
		}
	}
	if (!count)
		program_die("no question is named so");
	return only_list || apart_finish() ? 0 : 1;
}
