/* SPDX-License-Identifier: MIT */
/*
 * life_signals CASE: signals of the process go where they would without Spillway; prints "ok".
 *
 *   sigwait    signals sent to the process wait for sigtimedwait() and signalfd
 *   storm      signals interrupt calls all the time, with and without SA_RESTART
 *   errno      each call leaves errno as it was, or says that it does not; a line per call
 *   setxid     setting one's user number reaches every thread
 *   stop       another process of the job, LIFE_HOLDER, is stopped: while it holds the segment's
 *              lock an allocation is refused in time, and everything goes on when it is continued
 */
#include "tests/e2e/life.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { ROUNDS = 60, INTERVAL_US = 100 };

static CUfunction function;

/* --- sigwait --- */

static void sigwait_case(void)
{
	static const int numbers[] = {SIGUSR1, SIGTERM, SIGALRM, SIGCHLD};
	const struct timespec soon = {.tv_sec = 10};
	struct signalfd_siginfo info;
	sigset_t set;
	int fd;

	/* Nothing is blocked while the threads of the driver and of Spillway begin. */
	begin_cuda();
	function = load_kernel();
	CHECK(launch(function, NULL));
	CHECK(cuCtxSynchronize());
	sigemptyset(&set);
	for (int i = 0; i < 4; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		int number = numbers[round % 4];

		kill(getpid(), number);
		CHECK(launch(function, NULL));
		EXPECT(sigtimedwait(&set, NULL, &soon) == number);
	}
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	kill(getpid(), SIGUSR1);
	EXPECT(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGUSR1);
}

/* --- storm --- */

static _Atomic int arrived, elsewhere;
static pid_t main_thread;

static void count(int number)
{
	(void)number;
	arrived++;
	elsewhere += syscall(SYS_gettid) != main_thread;
}

static void begin_storm(int number, int timer, int flags)
{
	struct sigaction action = {.sa_handler = count, .sa_flags = flags};
	struct itimerval interval = {{0, INTERVAL_US}, {0, INTERVAL_US}};

	sigaction(number, &action, NULL);
	setitimer(timer, &interval, NULL);
}

static void end_storm(int timer)
{
	struct itimerval never = {0};

	setitimer(timer, &never, NULL);
}

/* Takes eight blocks, half of which are spilled, and frees them, the spilled ones first or last. */
static void storm_round(int round, bool spilled_first)
{
	unsigned int words[4];
	CUdeviceptr block[8];

	for (int i = 0; i < 8; i++) {
		block[i] = take_mib(2);
		CHECK(cuMemsetD32_v2(block[i], (unsigned int)(round + i), 4));
		CHECK(launch(function, NULL));
	}
	for (int n = 0; n < 8; n++) {
		int i = spilled_first ? 7 - n : n;

		CHECK(cuMemcpyDtoH_v2(words, block[i], sizeof(words)));
		EXPECT(words[0] == (unsigned int)(round + i) && words[3] == words[0]);
		CHECK(cuMemFree_v2(block[i]));
	}
}

static void storm_rounds(bool spilled_first)
{
	begin_storm(SIGALRM, ITIMER_REAL, 0);
	begin_storm(SIGPROF, ITIMER_PROF, SA_RESTART);
	for (int round = 0; round < ROUNDS / 2; round++)
		storm_round(round, spilled_first);
	end_storm(ITIMER_REAL);
	end_storm(ITIMER_PROF);
}

static void storm(void)
{
	main_thread = getpid();
	begin_cuda();
	function = load_kernel();
	/* While something is spilled there is no room for it: nothing comes back. */
	storm_rounds(true);
	EXPECT(book("promotions") == 0);
	EXPECT(book("spills") == 4 * ROUNDS / 2);
	/*
	 * There is, from the first free on: what is spilled comes back meanwhile, and the memory
	 * it is to go to is not yet given up when the next round needs it, if the mover is late.
	 */
	storm_rounds(false);
	EXPECT(book("spills") >= 4 * ROUNDS && book("spills") <= 8 * ROUNDS);
	EXPECT(arrived > 100);
	EXPECT(elsewhere == 0);
	EXPECT(book("refusals") == 0);
	EXPECT(book("idle_slots") > 0);
	EXPECT(book("launches") == 8 * ROUNDS);
	EVENTUALLY(mib_charged() == 0 && book("host_charged") == book("host_pool"));
}

/* --- errno --- */

static void tell(const char *call, CUresult result)
{
	int now = errno;

	printf("%.*s %d: errno %s\n", (int)strcspn(call, "("), call, (int)result,
	       now == 4711 ? "kept" : "changed");
	errno = 4711;
}
#define TELL(call) tell(#call, call)

static void errno_case(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr one, two, three, virtual;
	CUcontext context, own;
	size_t free_bytes, total, pitch;
	CUgraphExec executable;
	unsigned int type;
	void *data[] = {&type}, *address;
	CUmodule module;
	CUstream stream;
	CUdevice device;
	CUevent event;
	CUgraph graph;

	errno = 4711;
	TELL(cuInit(1));
	TELL(cuInit(0));
	TELL(cuDeviceGet(&device, 0));
	TELL(cuDeviceTotalMem_v2(&total, device));
	TELL(cuMemAlloc_v2(&one, MIB));
	TELL(cuDevicePrimaryCtxRetain(&context, device));
	TELL(cuCtxSetCurrent(context));
	TELL(cuMemGetInfo_v2(&free_bytes, &total));
	TELL(cuMemAlloc_v2(&one, 2 * MIB));
	TELL(cuMemAlloc_v2(&two, 4 * MIB)); /* spilled under a limit of 4 MiB */
	TELL(cuMemAlloc_v2(&three, (size_t)1 << 45));
	TELL(cuMemAlloc_v2(NULL, MIB));
	TELL(cuMemGetAddressRange_v2(&three, &total, two + 1));
	TELL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, two));
	TELL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 8));
	TELL(cuPointerGetAttributes(1, names, data, two));
	TELL(cuMemcpyDtoD_v2(one, two, MIB));
	TELL(cuMemsetD8_v2(two, 1, MIB));
	TELL(cuMemFree_v2(one));
	TELL(cuMemFree_v2(two));
	TELL(cuMemFree_v2(one));
	TELL(cuMemFree_v2(0));
	TELL(cuMemAllocPitch_v2(&one, &pitch, 100, 10, 4));
	TELL(cuMemFree_v2(one));
	TELL(cuMemAllocPitch_v2(&one, &pitch, 100, 10, 3));
	TELL(cuMemAllocAsync(&one, MIB, NULL));
	TELL(cuMemFreeAsync(one, NULL));
	TELL(cuMemFreeAsync(8, NULL));
	TELL(cuMemCreate(&handle, 8 * MIB, &prop, 0)); /* spilled too */
	TELL(cuMemAddressReserve(&virtual, 8 * MIB, 0, 0, 0));
	TELL(cuMemMap(virtual, 8 * MIB, 0, handle, 0));
	TELL(cuMemMap(virtual, 8 * MIB, 0, handle, 0));
	TELL(cuMemSetAccess(virtual, 8 * MIB, &access, 1));
	TELL(cuMemRetainAllocationHandle(&again, (void *)virtual));
	TELL(cuMemRelease(again));
	TELL(cuMemRelease(handle));
	TELL(cuMemUnmap(virtual, 8 * MIB));
	TELL(cuMemUnmap(virtual, 8 * MIB));
	TELL(cuMemCreate(&handle, 1, &prop, 0));
	TELL(cuMemRelease(12345));
	TELL(cuModuleLoadData(&module, "not a module"));
	function = load_kernel();
	errno = 4711;
	TELL(launch(function, NULL));
	TELL(launch(NULL, NULL));
	TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	TELL(launch(function, stream)); /* paced, with a slot */
	TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	TELL(launch(function, stream));
	TELL(cuStreamEndCapture(stream, &graph));
	TELL(cuStreamEndCapture(stream, &graph));
	TELL(cuGraphInstantiateWithFlags(&executable, graph, 0));
	TELL(cuGraphLaunch(executable, stream));
	TELL(cuStreamSynchronize(stream));
	TELL(cuGraphExecDestroy(executable));
	TELL(cuEventCreate(&event, 0));
	TELL(cuEventRecord(event, stream));
	TELL(cuEventDestroy_v2(event));
	TELL(cuEventDestroy_v2(NULL));
	TELL(cuStreamDestroy_v2(stream));
	TELL(cuStreamDestroy_v2((CUstream)8));
	TELL(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, NULL));
	TELL(cuGetProcAddress_v2("cuNoSuchThing", &address, 12000, 0, NULL));
	TELL(cuCtxCreate_v2(&own, 0, device));
	TELL(cuMemAlloc_v2(&one, 8 * MIB));
	TELL(cuCtxDestroy_v2(own));
	TELL(cuCtxDestroy_v2(own));
	TELL(cuCtxSetCurrent(context));
	TELL(cuMemAlloc_v2(&one, 8 * MIB));
	TELL(cuDevicePrimaryCtxRelease_v2(device));
	TELL(cuDevicePrimaryCtxReset_v2(device));
	TELL(cuDevicePrimaryCtxReset_v2(99));
}

/* --- setxid, stop --- */

static void setxid(void)
{
	begin_cuda();
	EXPECT(setreuid(getuid(), geteuid()) == 0);
	EXPECT(setgid(getgid()) == 0);
	take_mib(1);
}

static void stop(void)
{
	const char *program = getenv("LIFE_HOLDER");
	struct timespec before, after;
	CUdeviceptr address;
	char word[8] = "";
	pid_t holder;
	int to[2];

	begin_cuda();
	take_mib(2);
	EXPECT(program && pipe(to) == 0);
	holder = fork();
	if (holder == 0) {
		dup2(to[1], STDOUT_FILENO);
		execl(program ? program : "", "hold_lock", "stop", (char *)NULL);
		_exit(127);
	}
	EXPECT(read(to[0], word, sizeof(word)) == 5);
	EXPECT(waitpid(holder, NULL, WUNTRACED) == holder);
	clock_gettime(CLOCK_MONOTONIC, &before);
	EXPECT(cuMemAlloc_v2(&address, 2 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	clock_gettime(CLOCK_MONOTONIC, &after);
	EXPECT(after.tv_sec - before.tv_sec < 10);
	kill(holder, SIGCONT);
	waitpid(holder, NULL, 0);
	take_mib(2);
	EVENTUALLY(mib_charged() == 4);
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	if (strcmp(argv[1], "errno") == 0) {
		errno_case();
		return 0;
	}
	if (strcmp(argv[1], "sigwait") == 0)
		sigwait_case();
	else if (strcmp(argv[1], "storm") == 0)
		storm();
	else if (strcmp(argv[1], "setxid") == 0)
		setxid();
	else
		stop();
	printf("ok\n");
	return 0;
}
