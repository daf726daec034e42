/* SPDX-License-Identifier: MIT */
/* A process for each question; see apart.h. */
#include "tests/gpu/apart.h"

#include "tests/clients/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static enum { TEXT, JSON, TSV } format;
static FILE *object; /* NULL: answers are lines alone */
static int limit_seconds = 60;
static unsigned answers;
static bool all_good = true;
static char last_reply[256];

/*
 * The pipe from a question's process to this one carries "question TAB answer TAB evidence" lines.
 */
static FILE *to_parent;

bool apart_format(const char *option, int seconds)
{
	limit_seconds = seconds;
	if (!option)
		format = TEXT;
	else if (strcmp(option, "--json") == 0)
		format = JSON;
	else if (strncmp(option, "--json=", 7) == 0)
		object = fopen(option + 7, "w");
	else if (strcmp(option, "--tsv") == 0)
		format = TSV;
	else
		return false;
	if (format == JSON)
		object = stdout;
	return object || !option || format == TSV; /* else the file cannot be written */
}

static void print_json_string(const char *text)
{
	putc('"', object);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', object);
		putc(*text, object);
	}
	putc('"', object);
}

static void print_member(const char *question, const char *reply, const char *evidence)
{
	fputs(answers ? ",\n  " : "{\n  ", object);
	print_json_string(question);
	fputs(": {\"answer\": ", object);
	print_json_string(reply);
	fputs(", \"evidence\": ", object);
	print_json_string(evidence);
	putc('}', object);
	fflush(object); /* before the next process gets a copy of the buffer */
}

static void print_answer(const char *question, const char *reply, const char *evidence)
{
	if (format == TEXT)
		printf(*evidence ? "%s: %s (%s)\n" : "%s: %s\n", question, reply, evidence);
	else if (format == TSV)
		printf("%s\t%s\t%s\n", question, reply, evidence);
	if (object)
		print_member(question, reply, evidence);
	fflush(stdout);
	snprintf(last_reply, sizeof(last_reply), "%s", reply);
	answers++;
}

void answer(const char *question, const char *reply, const char *evidence, ...)
{
	char text[1024];
	va_list args;

	va_start(args, evidence);
	vsnprintf(text, sizeof(text), evidence, args);
	va_end(args);
	if (!to_parent) { /* of no other process */
		print_answer(question, reply, text);
		return;
	}
	fprintf(to_parent, "%s\t%s\t%s\n", question, reply, text);
	fflush(to_parent);
}

const char *apart_last_reply(void)
{
	return last_reply;
}

static void print_line(char *line)
{
	char *rest = line;
	char *question = strsep(&rest, "\t");
	char *reply = strsep(&rest, "\t");
	char *evidence = strsep(&rest, "\n");

	if (evidence)
		print_answer(question, reply, evidence);
}

/*
 * Prints the lines that come until the pipe's other end is closed; false: it still is not when the
 * time is over.
 */
static bool print_until(int from_child, double deadline)
{
	char text[4096];
	size_t used = 0;

	for (;;) {
		struct pollfd waited = {.fd = from_child, .events = POLLIN};
		double left = deadline - program_now_ms();
		char *end;

		if (left <= 0)
			return false;
		if (poll(&waited, 1, (int)left + 1) <= 0)
			continue;
		ssize_t got = read(from_child, text + used, sizeof(text) - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return true;
		used += (size_t)got;
		text[used] = '\0';
		while ((end = strchr(text, '\n'))) {
			size_t rest = used - (size_t)(end + 1 - text);

			print_line(text); /* writes into it up to the end of the line */
			memmove(text, end + 1, rest + 1);
			used = rest;
		}
		if (used == sizeof(text) - 1)
			used = 0; /* no answer is so long */
	}
}

/* Waits for the process until then; false: it is still there. */
static bool ended_until(pid_t child, int *status, double deadline)
{
	while (waitpid(child, status, WNOHANG) == 0) {
		if (program_now_ms() > deadline)
			return false;
		usleep(1000);
	}
	return true;
}

static void say_what_became(const char *question, pid_t child, int from_child)
{
	double deadline = program_now_ms() + limit_seconds * 1e3;
	unsigned before = answers;
	int status = 0;

	bool closed = print_until(from_child, deadline);
	if (!closed || !ended_until(child, &status, deadline + 1000)) {
		kill(child, SIGKILL);
		bool gone = ended_until(child, &status, program_now_ms() + 5000);
		all_good = false;
		if (answers == before)
			answer(question, "no answer", "within %d s%s", limit_seconds,
			       gone ? "" : ", and it cannot be killed");
		return;
	}
	if (answers > before) /* what its end says then is no word about the question */
		return;
	all_good = false;
	if (WIFSIGNALED(status))
		answer(question, "died", "of signal %d", WTERMSIG(status));
	else
		answer(question, "died", "with exit status %d", WEXITSTATUS(status));
}

bool apart_begin(const char *question)
{
	int ends[2];

	fflush(stdout);
	if (pipe(ends))
		program_die("pipe failed: %s", strerror(errno));
	pid_t child = fork();
	if (child < 0)
		program_die("fork failed: %s", strerror(errno));
	if (child > 0) {
		close(ends[1]);
		say_what_became(question, child, ends[0]);
		close(ends[0]);
		return false;
	}
	close(ends[0]);
	to_parent = fdopen(ends[1], "w");
	if (!to_parent)
		_exit(1);
	return true;
}

void apart_end(void)
{
	_exit(0);
}

bool apart_finish(void)
{
	if (object)
		fputs(answers ? "\n}\n" : "{}\n", object);
	if (object && fflush(object) != 0)
		all_good = false;
	return all_good && answers > 0;
}
