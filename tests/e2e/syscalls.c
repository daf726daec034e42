/* SPDX-License-Identifier: MIT */
/*
 * syscalls FILE COMMAND...: runs COMMAND and writes to FILE one line per system call of it and of
 * its children: "open PATH", "shared mapping", "private mapping", "timed wait" (by futex) or the
 * call's number. Exit status: the command's; 77 where programs must not be traced.
 *
 * TRACED_PRELOAD is the command's LD_PRELOAD, so that this program runs without.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PTRACE_GET_SYSCALL_INFO
#define PTRACE_GET_SYSCALL_INFO 0x420e
#endif

/* As <linux/ptrace.h> has it, which cannot stand beside <sys/ptrace.h>. */
struct syscall_info {
	uint8_t op; /* 1: entry */
	uint8_t pad[3];
	uint32_t architecture;
	uint64_t instruction, stack;
	uint64_t number, argument[6];
	uint64_t room[4];
};

static FILE *out;

static void write_path(pid_t pid, uint64_t address)
{
	char path[512] = "";
	struct iovec here = {path, sizeof(path) - 1}, there = {(void *)address, sizeof(path) - 1};
	size_t to_page_end = 4096 - address % 4096;

	/* It may end at the end of what is mapped. */
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) < 0) {
		here.iov_len = there.iov_len =
		    to_page_end < sizeof(path) - 1 ? to_page_end : sizeof(path) - 1;
		if (process_vm_readv(pid, &here, 1, &there, 1, 0) < 0)
			strcpy(path, "?");
	}
	fprintf(out, "open %s\n", path);
}

static void note(pid_t pid)
{
	struct syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0 || info.op != 1)
		return;
	if (info.number == SYS_openat)
		write_path(pid, info.argument[1]);
#ifdef SYS_open
	else if (info.number == SYS_open)
		write_path(pid, info.argument[0]);
#endif
	else if (info.number == SYS_mmap)
		fprintf(out, "%s mapping\n", info.argument[3] & MAP_SHARED ? "shared" : "private");
	else if (info.number == SYS_futex &&
	         (info.argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && info.argument[3])
		fprintf(out, "timed wait\n");
	else
		fprintf(out, "%d\n", (int)info.number);
}

static void be_traced(char **command)
{
	const char *preload = getenv("TRACED_PRELOAD");

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(77);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	unsetenv("TRACED_PRELOAD");
	raise(SIGSTOP);
	execvp(command[0], command);
	_exit(127);
}

/* Follows them all; the first one's exit status. */
static int follow(pid_t first)
{
	int status, result = 1;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		int with = 0;

		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (pid == first)
				result = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			note(pid);
		else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
			with = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, pid, NULL, with);
	}
	return result;
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 3 || !(out = fopen(argv[1], "we")))
		return 2;
	pid = fork();
	if (pid == 0)
		be_traced(argv + 2);
	waitpid(pid, &status, 0);
	if (!WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL,
	           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |
	               PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0)
		return 77;
	ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	status = follow(pid);
	return fclose(out) == 0 ? status : 2;
}
