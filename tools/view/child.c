/* SPDX-License-Identifier: MIT */
/* A command of the tool in a process of its own. */
#include "tools/view/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/view/tool.h"

static _Noreturn void child_become(const char *name, const char *const *arguments, int output)
{
	enum { MOST = 16 };
	const char *vector[MOST] = {name};
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(output, STDERR_FILENO) < 0)
		_exit(TOOL_FAILED);
	for (int i = 0; i < MOST - 2 && arguments[i]; i++)
		vector[i + 1] = arguments[i];
	execv("/proc/self/exe", (char *const *)vector);
	dprintf(STDERR_FILENO, "spillway: /proc/self/exe: %s\n", strerror(errno));
	_exit(TOOL_FAILED);
}

pid_t child_begin(const char *name, const char *const *arguments, int *output)
{
	int ends[2];
	pid_t process;

	if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		fail("pipe: %s", strerror(errno));
	process = fork();
	if (process < 0)
		fail("fork: %s", strerror(errno));
	if (process == 0)
		child_become(name, arguments, ends[1]);
	close(ends[1]);
	*output = ends[0];
	return process;
}
