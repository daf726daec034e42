/* SPDX-License-Identifier: MIT */
/*
 * childless [DONE FILE [READY START]]: fills and checks 24 MiB of device memory in pieces. Where a
 * library makes a process meanwhile, by any system call, or executes a program, the kernel ends it
 * with SIGSYS. With DONE it makes that file then, and waits for the other; with READY likewise
 * before.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

/* Has the kernel end the process at whatever makes another, and leave it threads. */
static void forbid_children(void)
{
	/* glibc makes threads by clone() where clone3() is missing: the flags are seen there. */
	struct sock_filter program[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 9, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 8, 0),
#ifdef SYS_fork
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fork, 7, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_vfork, 6, 0),
#else
	    BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 0),
	    BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 0),
#endif
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 4, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
	    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 2),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = {.len = sizeof(program) / sizeof(*program), .filter = program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		fprintf(stderr, "children cannot be forbidden: %s\n", strerror(errno));
}

static void meet(const char *made, const char *awaited)
{
	close(open(made, O_CREAT | O_WRONLY, 0600));
	while (access(awaited, F_OK) != 0)
		usleep(10000);
}

int main(int argc, char **argv)
{
	enum { PIECES = 6, BYTES = 4 * MIB };
	CUdeviceptr piece[PIECES];
	static unsigned char back[BYTES];
	CUcontext context;

	forbid_children();
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	if (argc == 5)
		meet(argv[3], argv[4]);
	for (int i = 0; i < PIECES; i++) {
		CHECK(cuMemAlloc_v2(&piece[i], BYTES));
		CHECK(cuMemsetD8_v2(piece[i], (unsigned char)(i + 1), BYTES));
	}
	for (int i = 0; i < PIECES; i++) {
		CHECK(cuMemcpyDtoH_v2(back, piece[i], BYTES));
		if (back[0] != i + 1 || back[BYTES - 1] != i + 1) {
			fprintf(stderr, "piece %d holds %d\n", i, back[0]);
			return 1;
		}
	}
	if (argc >= 3)
		meet(argv[1], argv[2]);
	return 0;
}
