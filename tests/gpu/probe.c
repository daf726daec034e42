/* SPDX-License-Identifier: MIT */
/*
 * Puts every question to the driver, a process per question, and prints "question: answer
 * (evidence)". With --json it prints one object, with --json=FILE both, with --tsv a line of three
 * columns. Ends with 1 if a process died or answered nothing.
 */
#include "tests/gpu/probe.h"

#include <stdio.h>
#include <string.h>

enum { QUESTION_SECONDS = 60 };

static void (*const groups[])(void) = {
    ask_providers, ask_copies, ask_fills, ask_graphs, ask_atomics,   ask_sharing,
    ask_peers,     ask_runs,   ask_waits, ask_costs,  ask_bandwidth, ask_reset,
};

int main(int argc, char **argv)
{
	if (argc > 2 || !apart_format(argv[1], QUESTION_SECONDS)) {
		fprintf(stderr, "usage: probe [--json[=FILE] | --tsv]\n");
		return 2;
	}
	bool there = ask_device();
	if (there)
		gpu_choose_host();
	for (size_t i = 0; there && i < sizeof(groups) / sizeof(*groups); i++)
		groups[i]();
	return apart_finish() && there ? 0 : 1;
}
