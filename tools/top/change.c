/* SPDX-License-Identifier: MIT */
/*
 * spillway top: a change in progress. The command itself runs, as a process of its own, so that its
 * refusals, its waits and its messages are its own; the screen goes on meanwhile.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/top/top.h"
#include "tools/view/child.h"
#include "tools/view/tool.h"

void top_change_begin(struct top_change *change, const char *const *arguments)
{
	*change = (struct top_change){0};
	change->process = child_begin(CHILD_OF_TOP, arguments, &change->output);
}

static void change_collect(struct top_change *change)
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

/*
 * Chooses the line to show: the first of a complaint names the fault, the last of a report the end.
 */
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
	change_collect(change);
	if (waitpid(change->process, &status, WNOHANG) != change->process)
		return false;
	change_collect(change);
	close(change->output);
	change->process = 0;
	choose_line(change, !WIFEXITED(status) || WEXITSTATUS(status) != 0);
	return true;
}
