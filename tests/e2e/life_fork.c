/* SPDX-License-Identifier: MIT */
/*
 * life_fork CASE HOW: the part of a process in its job when the process forks. Prints "ok".
 *
 *   idle HOW       the child uses no CUDA and exits: the parent's slot and segment stay
 *   calls HOW      the child calls the driver: nothing of it is booked to the parent
 *   outlived HOW   the child lives on when its parent is killed: the parent's slot and bytes go
 *   own            children of a parent without CUDA use it: a slot each; one outlives its parent
 *   busy           children of a process whose threads are inside the driver: none hangs
 *   first          children of a process with a thread in its first cuInit: none hangs
 *
 * HOW: fork, raw (the system call, past pthread_atfork), shared (vfork's child, which should not
 * exit by exit(), but programs do). LIFE_NO_WIPE=1: as on a kernel without MADV_WIPEONFORK.
 */
#include "tests/e2e/life.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { HANGS_AFTER_S = 200, FIRST_CALLS = 24 };

#ifdef __SANITIZE_THREAD__
enum { BUSY_CHILDREN = 10 }; /* forking its shadow memory takes a second */
#else
enum { BUSY_CHILDREN = 100 };
#endif

static CUfunction function;

/* --- ways to fork --- */

static pid_t raw_fork(void)
{
	fflush(NULL);
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static pid_t fork_by(const char *how)
{
	fflush(NULL);
	return strcmp(how, "raw") == 0 ? raw_fork() : fork();
}

static int exit_in_shared_memory(void *cookie)
{
	(void)cookie;
	exit(0);
}

static void expect_exit_0(pid_t pid)
{
	int status = -1;

	EXPECT(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* madvise(MADV_WIPEONFORK) answers EINVAL from here on. */
static void be_an_old_kernel(void)
{
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	EXPECT(madvise(&program, 1, MADV_WIPEONFORK) != 0);
}

/* --- idle --- */

static void exit_without_cuda(const char *how)
{
	static char stack[1 << 18] __attribute__((aligned(64)));
	pid_t pid;

	if (strcmp(how, "shared") == 0) {
		pid = clone(exit_in_shared_memory, stack + sizeof(stack),
		            CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	} else {
		pid = fork_by(how);
		if (pid == 0) {
			free(malloc(100));
			exit(0);
		}
	}
	expect_exit_0(pid);
}

/* A job nobody named: its segment goes with its only process. */
static void idle(const char *how)
{
	char segment[600], job[64];

	job_name(job, sizeof(job));
	snprintf(segment, sizeof(segment), "%s/%s.segment", getenv("SPILLWAY_STATE_DIR"), job);
	begin_cuda();
	take_mib(2);
	EXPECT(access(segment, F_OK) == 0);
	exit_without_cuda(how);
	EXPECT(access(segment, F_OK) == 0);
	if (strcmp(how, "shared") != 0) /* which ended the driver */
		take_mib(2);
}

/* --- calls --- */

/* Calls everything: whatever the driver answers to a child, it must answer. */
static void call_everything(void)
{
	CUgraph graph = NULL;
	CUcontext context = NULL;
	CUstream stream = NULL;
	CUevent event = NULL;
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_FLOAT, 1};
	CUdeviceptr address = 0;
	CUmemoryPool pool = NULL;
	CUgraphExec executable = NULL;
	CUmodule module = NULL;
	CUarray array = NULL;
	void *host = NULL;
	unsigned int type;
	size_t free_bytes, total;

	cuInit(0);
	cuCtxGetCurrent(&context);
	cuMemGetInfo_v2(&free_bytes, &total);
	cuMemAlloc_v2(&address, MIB);
	cuMemFree_v2(address);
	cuMemAllocAsync(&address, MIB, NULL);
	cuMemFreeAsync(address, NULL);
	cuMemGetAddressRange_v2(&address, &total, address);
	cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
	cuMemAllocManaged(&address, MIB, CU_MEM_ATTACH_GLOBAL);
	cuMemHostAlloc(&host, MIB, 0);
	cuMemFreeHost(host);
	cuArrayCreate_v2(&array, &shape);
	cuMemPoolCreate(&pool, &pool_props);
	cuMemPoolTrimTo(pool, 0);
	cuMemPoolDestroy(pool);
	cuMemcpyDtoD_v2(address, address + 4, 4);
	cuMemsetD8_v2(address, 0, 4);
	cuModuleLoadData(&module, "");
	cuModuleUnload(module);
	cuGraphInstantiateWithFlags(&executable, graph, 0);
	cuGraphLaunch(executable, NULL);
	cuGraphExecDestroy(executable);
	cuMemCreate(&handle, 2 * MIB, &prop, 0);
	launch(function, NULL);
	cuStreamCreate(&stream, 0);
	cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	cuStreamEndCapture(stream, &graph);
	cuStreamEndCapture(NULL, &graph);
	cuEventCreate(&event, 0);
	cuEventDestroy_v2(event);
	cuStreamDestroy_v2(stream);
	cuCtxDestroy_v2(context);
	cuDevicePrimaryCtxReset_v2(0);
}

static void calls(const char *how)
{
	CUdeviceptr address;
	pid_t pid;

	begin_cuda();
	function = load_kernel();
	address = take_mib(8);
	launch(function, NULL);
	pid = fork_by(how);
	if (pid == 0) {
		alarm(HANGS_AFTER_S);
		call_everything();
		exit(0);
	}
	expect_exit_0(pid);
	EXPECT(processes("live") == 1);
	EXPECT(book("device_used") / MIB == 8);
	EVENTUALLY(mib_charged() == 8);
	EXPECT(book("allocations") == 1);
	EXPECT(book("launches") == 1 || getenv("LIFE_NO_WIPE"));
	CHECK(cuMemFree_v2(address));
	EVENTUALLY(mib_charged() == 0);
}

/* --- outlived --- */

static bool maps_name(const char *part)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	bool found = false;

	EXPECT(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, part) != NULL;
	fclose(maps);
	return found;
}

static void outlived(const char *how)
{
	pid_t parent, child = 0;
	int ready[2];

	EXPECT(pipe(ready) == 0);
	parent = fork();
	if (parent == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		begin_cuda();
		take_mib(8);
		child = fork_by(how);
		if (child == 0) {
			/* Forked by the book, nothing of ours is left in it. */
			EXPECT(strcmp(how, "fork") != 0 || !maps_name(".segment"));
			child = getpid();
			EXPECT(write(ready[1], &child, sizeof(child)) == sizeof(child));
		}
		close(ready[1]);
		alarm(HANGS_AFTER_S);
		for (;;)
			pause();
	}
	close(ready[1]);
	EXPECT(read(ready[0], &child, sizeof(child)) == sizeof(child));
	EVENTUALLY(processes("live") == 1 && mib_charged() == 8);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	EVENTUALLY(processes("live") == 0);
	begin_cuda(); /* somebody in the job, to whom the bytes come back */
	EVENTUALLY(mib_charged() == 0);
	EXPECT(kill(child, 0) == 0);
	kill(child, SIGKILL);
}

/* --- own --- */

static void use_own_cuda(int reports, int ends)
{
	char word;

	begin_cuda();
	take_mib(2);
	EXPECT(write(reports, "r", 1) == 1);
	EXPECT(read(ends, &word, 1) == 0); /* until nobody can write any more */
	exit(0);
}

/*
 * Children with CUDA of a parent without: three of this process's, one of a process that dies
 * first.
 */
static void own(void)
{
	int reports[2], ends[2], version;
	char word[4];

	EXPECT(pipe(reports) == 0 && pipe(ends) == 0);
	CHECK(cuDriverGetVersion(&version)); /* the driver is open, but not initialised */
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(HANGS_AFTER_S);
			close(ends[1]);
			if (i == 3 && fork() != 0)
				_exit(0);
			use_own_cuda(reports[1], ends[0]);
		}
	}
	for (int i = 0; i < 4; i++)
		EXPECT(read(reports[0], word, 1) == 1);
	EXPECT(processes("live") == 4);
	EVENTUALLY(mib_charged() == 8);
	begin_cuda();
	take_mib(2);
	EXPECT(processes("live") == 5);
	EVENTUALLY(mib_charged() == 10);
	close(ends[1]);
	EVENTUALLY(processes("live") == 1);
	EVENTUALLY(mib_charged() == 2);
}

/* --- busy --- */

static _Atomic bool stop;
static CUcontext context_of_threads;

static void *allocate_over_and_over(void *cookie)
{
	(void)cookie;
	CHECK(cuCtxSetCurrent(context_of_threads));
	while (!stop) {
		CUdeviceptr address;

		CHECK(cuMemFree_v2(take_mib(2)));
		CHECK(cuMemAllocAsync(&address, MIB, CU_STREAM_PER_THREAD));
		CHECK(cuMemFreeAsync(address, CU_STREAM_PER_THREAD));
	}
	return NULL;
}

static void *launch_over_and_over(void *cookie)
{
	(void)cookie;
	CHECK(cuCtxSetCurrent(context_of_threads));
	while (!stop)
		CHECK(launch(function, CU_STREAM_PER_THREAD));
	return NULL;
}

static void *capture_over_and_over(void *cookie)
{
	CUstream stream;
	CUgraph graph;

	(void)cookie;
	CHECK(cuCtxSetCurrent(context_of_threads));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (!stop) {
		CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		CHECK(cuStreamEndCapture(stream, &graph));
		CHECK(cuGraphDestroy(graph));
	}
	return NULL;
}

static void *initialise_over_and_over(void *cookie)
{
	(void)cookie;
	while (!stop)
		CHECK(cuInit(0));
	return NULL;
}

static void busy(void)
{
	void *(*const work[])(void *) = {allocate_over_and_over, launch_over_and_over,
	                                 initialise_over_and_over, capture_over_and_over};
	pthread_t thread[4];
	CUmemoryPool pool;

	context_of_threads = begin_cuda();
	function = load_kernel();
	for (int i = 0; i < 4; i++)
		EXPECT(pthread_create(&thread[i], NULL, work[i], NULL) == 0);
	for (int i = 0; i < BUSY_CHILDREN; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(HANGS_AFTER_S);
			free(malloc(1 << 20));
			fprintf(stderr, "%s", "");
			call_everything();
			exit(0);
		}
		expect_exit_0(pid);
	}
	stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK(cuCtxSynchronize());
	CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
	CHECK(cuMemPoolTrimTo(pool, 0));
	EXPECT(processes("live") == 1);
	EVENTUALLY(mib_charged() == 0);
	EXPECT(book("allocations") == 0);
}

/* --- first --- */

static void *begin_in_a_thread(void *cookie)
{
	(void)cookie;
	begin_cuda();
	return NULL;
}

/* Forks so long after another thread has begun to initialise CUDA. The child does so, too. */
static void fork_in_first_call(long us)
{
	struct timespec until, now;
	pthread_t thread;
	CUresult result;
	pid_t pid;

	clock_gettime(CLOCK_MONOTONIC, &until);
	EXPECT(pthread_create(&thread, NULL, begin_in_a_thread, NULL) == 0);
	until.tv_nsec += us * 1000;
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - until.tv_sec) * 1000000000 + now.tv_nsec < until.tv_nsec);
	pid = fork();
	if (pid == 0) {
		alarm(HANGS_AFTER_S);
		result = cuInit(0);
		EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_INITIALIZED);
		if (result == CUDA_SUCCESS) {
			begin_cuda();
			take_mib(2);
		}
		exit(0);
	}
	expect_exit_0(pid);
	pthread_join(thread, NULL);
	begin_cuda();
	take_mib(2);
}

static void first(void)
{
	for (long i = 0; i < FIRST_CALLS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(HANGS_AFTER_S);
			fork_in_first_call(i * 50);
			exit(0);
		}
		expect_exit_0(pid);
	}
	EVENTUALLY(processes("live") == 0);
	begin_cuda();
	EVENTUALLY(mib_charged() == 0 && processes("live") == 1);
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "fork";

	EXPECT(argc > 1);
	if (getenv("LIFE_NO_WIPE"))
		be_an_old_kernel();
	if (strcmp(argv[1], "idle") == 0)
		idle(how);
	else if (strcmp(argv[1], "calls") == 0)
		calls(how);
	else if (strcmp(argv[1], "outlived") == 0)
		outlived(how);
	else if (strcmp(argv[1], "own") == 0)
		own();
	else if (strcmp(argv[1], "first") == 0)
		first();
	else
		busy();
	printf("ok\n");
	fflush(stdout);
	_exit(0); /* after exit_in_shared_memory() there is nothing left to exit by */
}
