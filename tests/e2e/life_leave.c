/* SPDX-License-Identifier: MIT */
/*
 * life_leave HOW: a process with all of its job's 16 MiB, queued kernels and threads that launch,
 * ends.
 *
 *   return exit _exit quick_exit abort thread handler kill    exit status 7 where it has one
 *   exec exec-thread    becomes a program that needs the same memory, and then exits with 7
 *   after               that program
 *   late FILE           exits while a library (FILE, or already there: -) frees objects in its
 *                       destructor
 *   close               closes the driver's library more often than it opened it
 *   spawn               children by every way but fork, with and without CUDA; exec that fails
 */
#include "tests/e2e/life.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { QUEUED = 200, MOST_LAUNCHES = 1 << 20, THREADS = 2, STATUS = 7 };

static char *self;
static CUcontext context;
static CUfunction function;

/* --- leaving --- */

static void become_another(void)
{
	execl(self, self, "after", (char *)NULL);
	_exit(1);
}

static void *exit_in_thread(void *cookie)
{
	(void)cookie;
	exit(STATUS);
}

static void *become_another_in_thread(void *cookie)
{
	become_another();
	return cookie;
}

static void exit_in_handler(int number)
{
	(void)number;
	exit(STATUS); /* NOLINT(bugprone-signal-handler): programs do it */
}

static void in_thread(void *(*run)(void *))
{
	pthread_t thread;

	EXPECT(pthread_create(&thread, NULL, run, NULL) == 0);
	pthread_detach(thread);
	for (;;)
		pause();
}

static void *launch_over_and_over(void *cookie)
{
	CHECK(cuCtxSetCurrent(context));
	/* Until the process, or the driver, is gone. The software GPU queues all launches, some 400
	 * bytes each: a process that waits in vain must not take the memory of the machine. */
	for (int i = 0; i < MOST_LAUNCHES; i++)
		if (launch(function, NULL) != CUDA_SUCCESS)
			return cookie;
	for (;;)
		pause();
}

static void work(void)
{
	sigset_t alarm_alone, before;
	pthread_t thread;
	CUstream stream;

	context = begin_cuda();
	function = load_kernel();
	take_mib(8);
	take_mib(8);
	sigemptyset(&alarm_alone);
	sigaddset(&alarm_alone, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_alone, &before);
	for (int i = 0; i < THREADS; i++) {
		EXPECT(pthread_create(&thread, NULL, launch_over_and_over, NULL) == 0);
		pthread_detach(thread);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (getenv("SPILLWAY_SHARE"))
		EVENTUALLY(book("idle_slots") > 0);
	else
		for (int i = 0; i < QUEUED; i++)
			CHECK(launch(function, stream));
	EVENTUALLY(mib_charged() == 16);
}

static int leave(const char *how)
{
	work();
	if (strcmp(how, "exit") == 0)
		exit(STATUS);
	if (strcmp(how, "_exit") == 0)
		_exit(STATUS);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(STATUS);
	if (strcmp(how, "abort") == 0) {
		prctl(PR_SET_DUMPABLE, 0); /* no core file */
		abort();
	}
	if (strcmp(how, "thread") == 0)
		in_thread(exit_in_thread);
	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(how, "exec") == 0)
		become_another();
	if (strcmp(how, "exec-thread") == 0)
		in_thread(become_another_in_thread);
	if (strcmp(how, "handler") == 0) {
		/* Mostly in a launch, which is mostly in a slot. */
		signal(SIGALRM, exit_in_handler);
		ualarm(20000, 0);
		launch_over_and_over(NULL);
	}
	EXPECT(strcmp(how, "return") == 0);
	return STATUS;
}

static int after(void)
{
	begin_cuda();
	take_mib(8);
	take_mib(8);
	EVENTUALLY(processes("live") == 1 && processes("draining") == 0);
	EVENTUALLY(mib_charged() == 16);
	return STATUS;
}

/* --- late --- */

static int late(const char *file)
{
	struct {
		CUdeviceptr native, spilled;
		CUevent event;
		CUstream stream;
		CUcontext context;
	} objects;
	void (*keep)(const void *);
	void *library = RTLD_DEFAULT;

	begin_cuda();
	/* Opened after the driver, it ends after the driver. */
	if (strcmp(file, "-") != 0)
		EXPECT((library = dlopen(file, RTLD_NOW)));
	objects.native = take_mib(8);
	objects.spilled = take_mib(16);
	CHECK(cuEventCreate(&objects.event, 0));
	CHECK(cuStreamCreate(&objects.stream, 0));
	CHECK(cuCtxCreate_v2(&objects.context, 0, 0));
	*(void **)&keep = dlsym(library, "late_keep");
	EXPECT(keep);
	keep(&objects);
	return STATUS;
}

/* --- close --- */

static int close_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*allocate)(CUdeviceptr *, size_t);
	CUdeviceptr kept, address;

	begin_cuda();
	kept = take_mib(2);
	for (int i = 0; i < 20; i++)
		dlclose(library);
	*(void **)&allocate = dlsym(dlopen("libcuda.so", RTLD_NOW), "cuMemAlloc_v2");
	CHECK(allocate(&address, 2 * MIB));
	EVENTUALLY(mib_charged() == 4);
	CHECK(cuMemFree_v2(kept));
	CHECK(cuMemFree_v2(address));
	EVENTUALLY(mib_charged() == 0);
	return STATUS;
}

/* --- spawn --- */

static int spawned(const char *job_has)
{
	begin_cuda();
	take_mib(2);
	EXPECT(processes("live") == atoi(job_has));
	return STATUS;
}

static int status_of(pid_t pid)
{
	int status = -1;

	EXPECT(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Not even the kind of vfork that calls nothing but exec and _exit. */
static pid_t vfork_and_fail(void)
{
	pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

	if (pid == 0) {
		execl("/nonexistent", "nonexistent", (char *)NULL);
		_exit(STATUS);
	}
	return pid;
}

static int spawn(void)
{
	char two[] = "2", spawned_word[] = "spawned", program[] = "true", missing[] = "missing";
	char *with_cuda[] = {self, spawned_word, two, NULL};
	char *without[] = {program, NULL}, *nothing[] = {missing, NULL};
	char command[600];
	pid_t pid;

	begin_cuda();
	take_mib(8);
	EXPECT(posix_spawn(&pid, "/bin/true", NULL, NULL, without, environ) == 0);
	EXPECT(status_of(pid) == 0);
	EXPECT(posix_spawn(&pid, "/nonexistent", NULL, NULL, nothing, environ) == ENOENT);
	EXPECT(status_of(vfork_and_fail()) == STATUS);
	EXPECT(system("exit 3") == 3 << 8);
	EXPECT(execl("/nonexistent", "nonexistent", (char *)NULL) == -1 && errno == ENOENT);
	EVENTUALLY(processes("live") == 1 && mib_charged() == 8);

	EXPECT(posix_spawn(&pid, self, NULL, NULL, with_cuda, environ) == 0);
	EXPECT(status_of(pid) == STATUS);
	snprintf(command, sizeof(command), "%s spawned 2", self);
	EXPECT(system(command) == STATUS << 8);
	EVENTUALLY(mib_charged() == 8);
	EXPECT(processes("live") == 1);
	take_mib(2);
	return STATUS;
}

int main(int argc, char **argv)
{
	EXPECT(argc > 1);
	self = argv[0];
	if (strcmp(argv[1], "after") == 0)
		return after();
	if (strcmp(argv[1], "late") == 0)
		return late(argv[2]);
	if (strcmp(argv[1], "close") == 0)
		return close_driver();
	if (strcmp(argv[1], "spawned") == 0)
		return spawned(argv[2]);
	if (strcmp(argv[1], "spawn") == 0)
		return spawn();
	return leave(argv[1]);
}
