/*
 * Puts every question to the driver, a process per group, and prints "question: answer (evidence)"
 * or, with --json, one object. Ends with 1 if a group crashed or answered nothing.
 */
#include "tests/gpu/probe.h"

#include "tests/clients/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUP_SECONDS = 60, NO_DEVICE = 3 };

static const struct {
	const char *name;
	void (*ask)(void);
} groups[] = {
    {"device", ask_device},   {"providers", ask_providers}, {"copies", ask_copies},
    {"fills", ask_fills},     {"graphs", ask_graphs},       {"atomics", ask_atomics},
    {"sharing", ask_sharing}, {"peers", ask_peers},         {"runs", ask_runs},
    {"waits", ask_waits},     {"costs", ask_costs},         {"bandwidth", ask_bandwidth},
    {"reset", ask_reset},
};

static bool as_json;
static bool no_device;
static unsigned answers;

/* The pipe from a group's process to this one carries "question TAB answer TAB evidence" lines. */
static FILE *to_parent;

void answer(const char *question, const char *reply, const char *evidence, ...)
{
	va_list args;

	fprintf(to_parent, "%s\t%s\t", question, reply);
	va_start(args, evidence);
	vfprintf(to_parent, evidence, args);
	va_end(args);
	fputc('\n', to_parent);
	fflush(to_parent);
}

static void print_json_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void print_answer(const char *question, const char *reply, const char *evidence)
{
	if (!as_json) {
		printf(*evidence ? "%s: %s (%s)\n" : "%s: %s\n", question, reply, evidence);
	} else {
		fputs(answers ? ",\n  " : "{\n  ", stdout);
		print_json_string(question);
		fputs(": {\"answer\": ", stdout);
		print_json_string(reply);
		fputs(", \"evidence\": ", stdout);
		print_json_string(evidence);
		putchar('}');
	}
	fflush(stdout);
	answers++;
}

/* Runs a group in a process of its own and prints what it answers; false if that went wrong. */
static bool run_group(const char *name, void (*ask)(void))
{
	int ends[2];
	int status;
	unsigned before = answers;

	fflush(stdout);
	if (pipe(ends))
		program_die("pipe failed");
	pid_t child = fork();
	if (child < 0)
		program_die("fork failed");
	if (child == 0) {
		close(ends[0]);
		to_parent = fdopen(ends[1], "w");
		if (!to_parent)
			_exit(1);
		alarm(GROUP_SECONDS);
		if (!gpu_open())
			_exit(NO_DEVICE);
		ask();
		_exit(0);
	}
	close(ends[1]);

	FILE *from_child = fdopen(ends[0], "r");
	char line[1024];
	while (from_child && fgets(line, sizeof(line), from_child)) {
		char *rest = line;
		char *question = strsep(&rest, "\t");
		char *reply = strsep(&rest, "\t");
		char *evidence = strsep(&rest, "\n");
		if (evidence)
			print_answer(question, reply, evidence);
	}
	if (from_child)
		fclose(from_child);
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return answers > before;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_DEVICE) {
		no_device = true; /* the group has said so */
		return false;
	}

	char evidence[64];
	snprintf(evidence, sizeof(evidence), WIFSIGNALED(status) ? "signal %d" : "exit status %d",
	         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	print_answer(name, "the process died", evidence);
	return false;
}

int main(int argc, char **argv)
{
	bool good = true;

	if (argc == 2 && strcmp(argv[1], "--json") == 0) {
		as_json = true;
	} else if (argc > 1) {
		fprintf(stderr, "usage: probe [--json]\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups) && !no_device; i++)
		good &= run_group(groups[i].name, groups[i].ask);
	if (as_json)
		puts("\n}");
	return good ? 0 : 1;
}
