/* SPDX-License-Identifier: MIT */
/*
 * deny SYSCALL[=ERROR]... -- COMMAND...: runs COMMAND where the kernel answers these system calls
 * with ERROR (EPERM, ENOSYS, EACCES, EAGAIN or EDQUOT; EPERM), as a container's seccomp profile
 * does.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

struct number {
	const char *name;
	unsigned int value;
};

#define SYSCALL(name)             \
	{                         \
#name, SYS_##name \
	}
static const struct number syscalls[] = {
    SYSCALL(clone),
    SYSCALL(clone3),
    SYSCALL(fallocate),
    SYSCALL(fchmod),
    SYSCALL(fcntl),
    SYSCALL(flock),
    SYSCALL(fstat),
    SYSCALL(futex),
#ifdef SYS_futex_waitv
    SYSCALL(futex_waitv),
#endif
    SYSCALL(get_mempolicy),
    SYSCALL(getcwd),
    SYSCALL(getdents64),
    SYSCALL(getrandom),
    SYSCALL(kcmp),
    SYSCALL(madvise),
    SYSCALL(mbind),
    SYSCALL(membarrier),
    SYSCALL(memfd_create),
    SYSCALL(mkdirat),
    SYSCALL(move_pages),
    SYSCALL(pidfd_open),
    SYSCALL(pidfd_getfd),
    SYSCALL(ppoll),
    SYSCALL(prctl),
    SYSCALL(process_vm_readv),
    SYSCALL(readlinkat),
    SYSCALL(renameat2),
    SYSCALL(rseq),
    SYSCALL(set_mempolicy),
    SYSCALL(set_robust_list),
    SYSCALL(statx),
    SYSCALL(sysinfo),
    SYSCALL(unlinkat),
    SYSCALL(userfaultfd),
#if defined(__x86_64__) /* where these are calls of their own */
    SYSCALL(access),
    SYSCALL(mkdir),
    SYSCALL(poll),
    SYSCALL(readlink),
    SYSCALL(rename),
    SYSCALL(unlink),
#endif
};

#define ERROR(name)         \
	{                   \
#name, name \
	}
static const struct number errors[] = {ERROR(EPERM), ERROR(ENOSYS), ERROR(EACCES), ERROR(EAGAIN),
                                       ERROR(EDQUOT)};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static unsigned int find(const struct number *table, size_t count, const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0)
			return table[i].value;
	fprintf(stderr, "deny: %.*s: not known here\n", (int)length, name);
	exit(2);
}

int main(int argc, char **argv)
{
	struct sock_filter filter[4 + 2 * COUNT(syscalls)] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--") != 0 && program.len + 3u <= COUNT(filter); i++) {
		size_t length = strcspn(argv[i], "=");
		unsigned int number = find(syscalls, COUNT(syscalls), argv[i], length);
		const char *named = argv[i][length] ? argv[i] + length + 1 : "EPERM";
		unsigned int error = find(errors, COUNT(errors), named, strlen(named));

		filter[program.len++] =
		    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
		filter[program.len++] =
		    (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
	}
	filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (i + 1 >= argc || strcmp(argv[i], "--") != 0) {
		fprintf(stderr, "usage: deny SYSCALL[=ERROR]... -- COMMAND...\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		fprintf(stderr, "deny: no filter can be installed: %s\n", strerror(errno));
		return 77;
	}
	execvp(argv[i + 1], argv + i + 1);
	fprintf(stderr, "deny: %s: %s\n", argv[i + 1], strerror(errno));
	return 127;
}
