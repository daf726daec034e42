/*
 * spillway top: a change in progress. The command itself runs, in a child, so that what it refuses, how
 * long it waits and what it says are its own; the screen goes on meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/view/tool.h"
#include "tools/top/top.h"

static _Noreturn void become(const char *const *arguments, int output)
{
	enum { MOST = 16 };
	static char name[] = "spillway";
	char *vector[MOST] = {name};
	int (*command)(int, char **) = command_set;
	int count = 1, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	top_screen_forget();
	complain_to = NULL;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(output, STDERR_FILENO) < 0)
		_exit(TOOL_FAILED);
	if (strcmp(arguments[0], "pause") == 0)
		command = command_pause;
	else if (strcmp(arguments[0], "resume") == 0)
		command = command_resume;
	for (; count < MOST - 1 && arguments[count]; count++)
		vector[count] = (char *)arguments[count];
	exit(command(count, vector));
}

void top_change_begin(struct top_change *change, const char *const *arguments)
{
	int ends[2];

	*change = (struct top_change){0};
	if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		fail("pipe: %s", strerror(errno));
	change->output = ends[0];
	change->process = fork();
	if (change->process < 0)
		fail("fork: %s", strerror(errno));
	if (change->process == 0)
		become(arguments, ends[1]);
	close(ends[1]);
}

static void collect(struct top_change *change)
{
	char rest[256] = "";

	for (;;) {
		size_t room = sizeof change->text - 1 - change->length;
		ssize_t length = read(change->output, room ? change->text + change->length : rest,
		                      room ? room : sizeof rest);

		if (length <= 0)
			break;
		change->length += room ? (size_t)length : 0;
	}
	change->text[change->length] = '\0';
}

/* The first line of a complaint says what is wrong, the last of a report how it ended. */
static void choose_line(struct top_change *change, bool failed)
{
	static const char prefix[] = "spillway: ";
	char *line = change->text, *end;

	for (char *next = line; !failed && *next; next += strspn(next, "\n")) {
		line = next;
		next += strcspn(next, "\n");
	}
	end = line + strcspn(line, "\n");
	*end = '\0';
	if (strncmp(line, prefix, sizeof prefix - 1) == 0)
		line += sizeof prefix - 1;
	change->said = line;
}

bool top_change_has_ended(struct top_change *change)
{
	int status;

	if (!change->process)
		return false;
	collect(change);
	if (waitpid(change->process, &status, WNOHANG) != change->process)
		return false;
	collect(change);
	close(change->output);
	change->process = 0;
	choose_line(change, !WIFEXITED(status) || WEXITSTATUS(status) != 0);
	return true;
}
