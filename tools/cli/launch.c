/* SPDX-License-Identifier: MIT */
/*
 * Running a program as a child that behaves as if its parent were not there.
 *
 * No handlers: the signals of interest are blocked and taken by sigtimedwait(), which also tells a
 * signal that someone sent to us from one the terminal sent to the whole process group, the child
 * included.
 */
#include "tools/cli/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/doctor/paths.h"
#include "tools/view/tool.h"

static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/*
 * Has the program end by SIGKILL when its parent does: as with nice(1), which is one process with
 * its program, nothing stays behind a `kill -9`. The kernel tells a set-uid program nothing of it.
 */
static void launch_bind_to(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != parent)
		_exit(RUN_FAILED); /* it has gone before that */
}

static _Noreturn void cli_launch_become(char **program)
{
	char path[PATH_MAX];
	int reason;

	execvp(program[0], program);
	reason = errno;
	if (reason == ENOENT && !strchr(program[0], '/') && !paths_program(program[0], path))
		complain("%s: not found in any folder of PATH%s", program[0],
		         paths_try(program[0], path) == path
		             ? "; it runs on the software GPU, by 'spillway run --softgpu'"
		             : "");
	else
		complain("%s: %s", program[0], strerror(reason));
	_exit(reason == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE);
}

/* Waits for a signal of ours until that time. Returns it, or -1 with EAGAIN. */
static int next_signal(const sigset_t *signals, siginfo_t *info, uint64_t until_ns)
{
	uint64_t now = clock_now(), left = until_ns > now ? until_ns - now : 0;
	const struct timespec interval = {.tv_sec = (time_t)(left / 1000000000),
	                                  .tv_nsec = (long)(left % 1000000000)};

	return sigtimedwait(signals, info, until_ns == UINT64_MAX ? NULL : &interval);
}

static int cli_launch_wait_for(pid_t child, const sigset_t *signals, uint64_t (*look)(void *cookie),
                               void *cookie)
{
	uint64_t next_ns = 0, interval;
	int status;

	for (;;) {
		siginfo_t info;
		int signal = next_signal(signals, &info, next_ns);

		if (signal < 0 && errno == EAGAIN) {
			interval = look(cookie);
			next_ns = interval ? clock_now() + interval : UINT64_MAX;
		} else if (signal == SIGCHLD) {
			if (waitpid(child, &status, WNOHANG) == child)
				return status;
		} else if (signal > 0 && info.si_code <= 0 && info.si_pid != child) {
			/* From a process. The terminal's go to the whole group, so the child has
			 * them. */
			kill(child, signal);
		}
	}
}

int launch(char **program, uint64_t (*look)(void *cookie), void *cookie)
{
	struct sigaction on_child, standard = {.sa_handler = SIG_DFL};
	sigset_t ours, before;
	pid_t child, parent = getpid();

	sigemptyset(&ours);
	sigaddset(&ours, SIGCHLD);
	for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
		sigaddset(&ours, forwarded[i]);
	sigprocmask(SIG_BLOCK, &ours, &before);
	/* Where SIGCHLD was ignored when we were started, no status would ever come. */
	sigaction(SIGCHLD, &standard, &on_child);

	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0) {
		launch_bind_to(parent);
		sigaction(SIGCHLD, &on_child, NULL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		cli_launch_become(program);
	}
	return cli_launch_wait_for(child, &ours, look, cookie);
}

_Noreturn void launch_exit(int status)
{
	if (WIFSIGNALED(status)) {
		int number = WTERMSIG(status);
		sigset_t one;

		prctl(PR_SET_DUMPABLE, 0); /* the program has dumped its core; ours says nothing */
		signal(number, SIG_DFL);
		sigemptyset(&one);
		sigaddset(&one, number);
		raise(number);
		sigprocmask(SIG_UNBLOCK, &one, NULL);
		exit(128 + number);
	}
	exit(WEXITSTATUS(status));
}
