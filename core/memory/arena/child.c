/*
 * Running a program. Rules: runs inside the user's process, which may have threads.
 *
 * A child that calls execve() tells its parent of its end by SIGCHLD. So there is a keeper
 * between the process and the program: a clone of the calling thread, with the same memory and
 * descriptors, while the thread stands still. The program is the keeper's child; the keeper
 * executes nothing, so it tells nobody, and only who asks for clones (__WCLONE) finds it.
 */
#include "core/memory/arena/child.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/descriptor.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#ifdef __SANITIZE_THREAD__
/*
 * The sanitizer's clone() takes each for a fork and does in its own books, twice, what it does
 * then.
 */
int __clone(int (*what)(void *), void *stack, int flags, void *cookie, ...);
#define clone __clone
#endif

/*
 * What runs on the stacks below does not return and never unwinds: the address sanitizer would miss
 * the thread's own stack, and say so, and leave its marks where something else is mapped later.
 */
#ifdef __SANITIZE_ADDRESS__
#define ON_OWN_STACK __attribute__((no_sanitize_address))
#else
#define ON_OWN_STACK
#endif

enum { STACK = 64 << 10, COULD_NOT_RUN = 127, CLOSE_ON_EXEC = 4 };

struct run {
	const char *program;
	char *const *arguments, *const *environment;
	char *out;
	size_t size;
	struct deadline *until;
	char *stacks; /* of the keeper and of the program, which exist at the same time */
	int ends[2];  /* of the pipe that the program prints into */
	int result;
};

ON_OWN_STACK static void close_end(struct run *run, int end)
{
	if (run->ends[end] >= 0)
		close(run->ends[end]);
	run->ends[end] = -1;
}

ON_OWN_STACK static bool put(int descriptor, int at)
{
	return descriptor == at || syscall(SYS_dup3, descriptor, at, 0) >= 0;
}

/*
 * Runs as the program's process, until it is the program. Its descriptors are its own but its
 * memory is not, so it asks the kernel itself for them: who interposes open() notes in memory what
 * each is.
 */
ON_OWN_STACK static int execute(void *cookie)
{
	const struct run *run = cookie;
	int null = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || !put(null, STDIN_FILENO) || !put(run->ends[1], STDOUT_FILENO) ||
	    !put(null, STDERR_FILENO))
		_exit(COULD_NOT_RUN);
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_ON_EXEC); /* since Linux 5.11 */
	/* Threads of ours have all blocked; a program is to die of what it does. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(run->program, run->arguments, run->environment);
	_exit(COULD_NOT_RUN);
}

/*
 * Starts a process in this thread's memory, which stands still until it executes or ends. Its stack
 * is not of the thread's, which may be small.
 */
ON_OWN_STACK static pid_t start(int (*what)(void *), struct run *run, char *stack, int flags)
{
	return clone(what, stack + STACK, CLONE_VM | CLONE_VFORK | flags, run);
}

/*
 * Lets the calling process have no handler, and not ignore the end of children, for which it could
 * not wait then. Asks the kernel itself: who interposes sigaction() notes in memory, which is the
 * user's process's too, what it is told.
 */
ON_OWN_STACK static void forget_handlers(void)
{
	struct {
		void *handler;
		unsigned long rest[3];
	} found, none = {0};
	enum { MASK_SIZE = 8 };

	for (int signal = 1; signal <= SIGRTMAX; signal++) {
		if (syscall(SYS_rt_sigaction, signal, NULL, &found, MASK_SIZE) == 0 &&
		    (signal == SIGCHLD || found.handler != (void *)SIG_IGN))
			syscall(SYS_rt_sigaction, signal, &none, NULL, MASK_SIZE);
	}
}

/* Reads what it prints until it prints no more. Returns false when the deadline ends before. */
ON_OWN_STACK static bool read_all(const struct run *run)
{
	size_t filled = 0;
	char rest[256];

	for (;;) {
		struct pollfd ready = {.fd = run->ends[0], .events = POLLIN};
		bool full = filled + 1 >= run->size;
		int wait_ms = (int)(deadline_left(run->until) / 1000000);
		ssize_t got;

		if (wait_ms == 0)
			return false;
		if (poll(&ready, 1, wait_ms) <= 0)
			continue;
		got = full ? read(run->ends[0], rest, sizeof(rest))
		           : read(run->ends[0], run->out + filled, run->size - 1 - filled);
		if (got > 0 && !full)
			filled += (size_t)got;
		run->out[filled] = '\0';
		if (got == 0 || (got < 0 && errno != EINTR))
			return true;
	}
}

/* Returns how a process ended, which is waited for. */
ON_OWN_STACK static int end_of(pid_t child, int flags)
{
	int status;

	while (waitpid(child, &status, flags) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EINTR;
	return WEXITSTATUS(status) == COULD_NOT_RUN ? -ENOEXEC : WEXITSTATUS(status);
}

/* Runs as the keeper. Leaves its answer in the memory that it shares. */
ON_OWN_STACK static int keep(void *cookie)
{
	struct run *run = cookie;
	pid_t program;
	bool is_read;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	forget_handlers(); /* the program's process begins with what this one has */
	program = start(execute, run, run->stacks, SIGCHLD);
	run->result = -errno;
	close_end(run, 1); /* nobody but the program writes now */
	if (program > 0) {
		is_read = read_all(run);
		if (!is_read)
			kill(program, SIGKILL);
		run->result = end_of(program, 0);
		if (!is_read)
			run->result = -ETIME;
	}
	_exit(0);
}

/*
 * Returns whether valgrind runs the process, which ends at a clone that is neither a thread nor a
 * fork: asked by the instructions that do nothing elsewhere (valgrind.h, client requests).
 */
static bool is_in_valgrind(void)
{
#if defined(__x86_64__)
	const uint64_t request[6] = {0x1001};
	uint64_t answer = 0;

	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
	                 "xchgq %%rbx, %%rbx"
	                 : "+d"(answer)
	                 : "a"(request)
	                 : "cc", "memory");
	return answer != 0;
#else
	return false;
#endif
}

static int run_program(struct run *run)
{
	sigset_t all, before;
	pid_t keeper;

	if (pipe2(run->ends, O_CLOEXEC) != 0)
		return -errno;
	run->ends[0] = descriptor_above_stdio(run->ends[0]);
	run->ends[1] = descriptor_above_stdio(run->ends[1]);
	run->stacks = mmap(NULL, 2 * (size_t)STACK, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	run->result = run->stacks == MAP_FAILED ? -ENOMEM : -EBADF;
	if (run->stacks != MAP_FAILED && run->ends[0] >= 0 && run->ends[1] >= 0) {
		/* No handler of the program's may run in the keeper, which is in its memory. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		keeper = start(keep, run, run->stacks + STACK, CLONE_FILES);
		if (keeper < 0)
			run->result = -errno;
		else
			end_of(keeper, __WCLONE);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (run->stacks != MAP_FAILED)
		munmap(run->stacks, 2 * (size_t)STACK);
	close_end(run, 0);
	close_end(run, 1);
	return run->result;
}

int child_run(const char *program, char *const *arguments, char *const *environment, char *out,
              size_t size, struct deadline *until)
{
	struct run this_run = {.program = program,
	                       .arguments = arguments,
	                       .environment = environment,
	                       .out = out,
	                       .size = size,
	                       .until = until};
	int kept = errno, cancel, result;

	out[0] = '\0';
	if (is_in_valgrind() || access(program, X_OK) != 0) {
		result = -ENOENT;
		errno = kept;
		return result;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	result = run_program(&this_run);
	pthread_setcancelstate(cancel, NULL);
	errno = kept;
	return result;
}
