/* SPDX-License-Identifier: MIT */
/*
 * driver-probe DRIVER: prints CUDA's version of a driver library, and the first device of each kind
 * with the NUMA node of the host beside it:
 *
 *   version 13000
 *   device 0 node 0 NVIDIA L40S
 *
 * driver-probe DRIVER DEVICE NODES: tries, each in a process of its own, calls that some drivers do
 * not survive or refuse, and prints the answers, a line each:
 *
 *   numa NODE ERROR   physical memory on each of these NUMA nodes of the host ("1,0")
 *   host ERROR        the same without a node
 *   copy ERROR        copies between such memory and the program's own
 *   node ERROR        a copy between both that was captured, when its memory has come to the device
 *   mixed ERROR       copies and fills over a border between it and memory of the device
 *   unmap ERROR       unmapping and releasing beside work that runs; 600: they wait for it
 *
 * ERROR is the driver's, 0 for none, or "crash". Where the driver does not answer the program ends
 * with 3, because a busy machine may be the reason. `spillway` runs it, outside of every job
 * (tools/doctor/probe.h). One process at a time has the driver open, with one context and at most
 * 8 MiB of the device.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5"); /* as core/base/glibc.h has for other names */
#elif defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
#endif

enum { UNIT = 2 << 20, SECONDS = 20, CRASHED = -1, LATE = 3 };

static void *library;
static int device;
static int node = -1; /* the first that works */

/* Calls a function of the driver; one that an old driver lacks is one that it does not support. */
#define CALL(function, ...)                                                \
	({                                                                 \
		__typeof__(&(function)) symbol_ =                          \
		    (__typeof__(symbol_))dlsym(library, NAME(function));   \
		symbol_ ? symbol_(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED; \
	})
/* cuda.h renames functions to their newest form; the symbol's name must be that form's. */
#define NAME(function) #function

#define TRY(call)                           \
	do {                                \
		CUresult error_ = (call);   \
		if (error_ != CUDA_SUCCESS) \
			return error_;      \
	} while (0)

static CUresult make_at(CUmemLocationType where, int id, CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp prop = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = where, .location.id = id};

	return CALL(cuMemCreate, handle, UNIT, &prop, 0);
}

static CUresult driver_probe_make(CUmemLocationType where, CUmemGenericAllocationHandle *handle)
{
	return make_at(where, where == CU_MEM_LOCATION_TYPE_DEVICE ? device : 0, handle);
}

static CUresult driver_probe_make_on_host(CUmemGenericAllocationHandle *handle)
{
	return node >= 0 ? make_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, node, handle)
	                 : driver_probe_make(CU_MEM_LOCATION_TYPE_HOST, handle);
}

static CUresult host(void)
{
	CUmemGenericAllocationHandle handle;

	return driver_probe_make(CU_MEM_LOCATION_TYPE_HOST, &handle);
}

/* Maps memory one behind the other, as the letters say: h the host's, d the device's. */
static CUresult map(const char *places, CUdeviceptr *base)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	size_t count = 0;

	while (places[count])
		count++;
	TRY(CALL(cuMemAddressReserve, base, count * UNIT, 0, 0, 0));
	for (size_t i = 0; i < count; i++) {
		CUmemGenericAllocationHandle handle;

		TRY(places[i] == 'h' ? driver_probe_make_on_host(&handle)
		                     : driver_probe_make(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
		TRY(CALL(cuMemMap, *base + i * UNIT, UNIT, 0, handle, 0));
	}
	return CALL(cuMemSetAccess, *base, count * UNIT, &access, 1);
}

static CUresult driver_probe_begin(void)
{
	CUcontext context;

	TRY(CALL(cuDevicePrimaryCtxRetain, &context, device));
	return CALL(cuCtxSetCurrent, context);
}

/* Copies in all ways between memory and the program's, pageable and page-locked, and back. */
static CUresult copy_both_ways(CUdeviceptr memory, size_t size)
{
	void *own[2];

	if (posix_memalign(&own[0], 4096, size) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	TRY(CALL(cuMemAllocHost, &own[1], size));
	for (int i = 0; i < 2; i++) {
		TRY(CALL(cuMemcpyHtoD, memory, own[i], size));
		TRY(CALL(cuMemcpyDtoH, own[i], memory, size));
		TRY(CALL(cuMemcpyHtoDAsync, memory, own[i], size, NULL));
		TRY(CALL(cuMemcpyDtoHAsync, own[i], memory, size, NULL));
		TRY(CALL(cuCtxSynchronize));
	}
	return CUDA_SUCCESS;
}

static CUresult driver_probe_copy(void)
{
	CUdeviceptr memory, other;

	TRY(driver_probe_begin());
	TRY(map("h", &memory));
	TRY(map("h", &other));
	TRY(copy_both_ways(memory, UNIT));
	TRY(CALL(cuMemcpyDtoD, memory, other, UNIT));
	TRY(CALL(cuMemsetD8, memory, 1, UNIT));
	return CALL(cuCtxSynchronize);
}

/* Puts memory of the device in the place of the memory mapped there. */
static CUresult driver_probe_replace(CUdeviceptr address)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	TRY(driver_probe_make(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
	TRY(CALL(cuMemUnmap, address, UNIT));
	TRY(CALL(cuMemMap, address, UNIT, 0, handle, 0));
	return CALL(cuMemSetAccess, address, UNIT, &access, 1);
}

static CUresult driver_probe_captured(void)
{
	unsigned char *own;
	CUdeviceptr memory;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	TRY(driver_probe_begin());
	TRY(map("h", &memory));
	TRY(CALL(cuMemAllocHost, (void **)&own, UNIT));
	TRY(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
	TRY(CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	TRY(CALL(cuMemcpyDtoHAsync, own, memory, UNIT, stream));
	TRY(CALL(cuStreamEndCapture, stream, &graph));
	TRY(CALL(cuGraphInstantiateWithFlags, &exec, graph, 0));
	TRY(driver_probe_replace(memory));
	TRY(CALL(cuMemsetD8, memory, 7, UNIT));
	TRY(CALL(cuCtxSynchronize));
	TRY(CALL(cuGraphLaunch, exec, stream));
	TRY(CALL(cuStreamSynchronize, stream));
	return own[0] == 7 && own[UNIT - 1] == 7 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult over_border(CUdeviceptr memory, CUdeviceptr plain)
{
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .srcDevice = memory,
	                      .srcPitch = 4096,
	                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .dstDevice = plain,
	                      .dstPitch = 4096,
	                      .WidthInBytes = 2048,
	                      .Height = 2 * UNIT / 4096};

	TRY(copy_both_ways(memory, (size_t)2 * UNIT));
	TRY(CALL(cuMemcpyDtoD, memory, plain, (size_t)2 * UNIT));
	TRY(CALL(cuMemcpyDtoD, plain, memory, (size_t)2 * UNIT));
	TRY(CALL(cuMemcpy2D, &rows));
	TRY(CALL(cuMemsetD8, memory, 1, (size_t)2 * UNIT));
	return CALL(cuCtxSynchronize);
}

static CUresult driver_probe_mixed(void)
{
	CUdeviceptr device_first, host_first, plain;

	TRY(driver_probe_begin());
	TRY(map("dh", &device_first));
	TRY(map("hd", &host_first));
	TRY(map("dd", &plain));
	TRY(over_border(device_first, plain));
	return over_border(host_first, plain);
}

static bool has_ended;

/* Work that runs for a while. */
static void CUDA_CB run(void *unused)
{
	const struct timespec a_while = {.tv_nsec = 200000000};

	(void)unused;
	nanosleep(&a_while, NULL);
	__atomic_store_n(&has_ended, true, __ATOMIC_RELEASE);
}

static CUresult unmap(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory, used;
	CUstream stream;
	bool has_waited;

	TRY(driver_probe_begin());
	TRY(map("d", &memory));
	TRY(map("d", &used));
	TRY(driver_probe_make(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
	TRY(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
	TRY(CALL(cuLaunchHostFunc, stream, run, NULL));
	/* The device itself has something before it, too: a waiting thread may ask only that. */
	TRY(CALL(cuMemsetD8Async, used, 1, UNIT, stream));
	TRY(CALL(cuMemUnmap, memory, UNIT));
	TRY(CALL(cuMemRelease, handle));
	has_waited = __atomic_load_n(&has_ended, __ATOMIC_ACQUIRE);
	TRY(CALL(cuStreamSynchronize, stream));
	return has_waited ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/*
 * Opens the driver by glibc's own dlopen, which is in its own library. Where the machine preloads
 * the shim into every process, the shim's dlopen stands before it. These questions are for the
 * driver.
 */
static void *open_driver(const char *driver)
{
	static const char *const homes[] = {"libc.so.6", "libdl.so.2"};
	int mode = RTLD_NOW | (dlsym(RTLD_DEFAULT, "cuInit") ? RTLD_DEEPBIND : 0);

	for (size_t i = 0; i < sizeof(homes) / sizeof(*homes); i++) {
		void *home = dlopen(homes[i], RTLD_LAZY | RTLD_NOLOAD);
		void *(*opens)(const char *, int) = home ? dlsym(home, "dlopen") : NULL;

		if (opens)
			return opens(driver, mode);
	}
	return dlopen(driver, mode);
}

/* Answers go to the parent as they come: those that precede a crash count. */
static int answers;

static void tell_parent(int answer)
{
	if (write(answers, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
		_exit(1);
}

/* Runs in the child. */
static _Noreturn void driver_probe_answer(const char *driver, void (*question)(const void *),
                                          const void *of)
{
	CUresult error;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	alarm(SECONDS);
	library = open_driver(driver);
	error = library ? CALL(cuInit, 0) : CUDA_ERROR_NOT_INITIALIZED;
	if (error == CUDA_SUCCESS)
		question(of);
	else
		tell_parent((int)error);
	_exit(0);
}

/*
 * Asks in a process of its own, in which the driver is opened. Returns how many answers came, at
 * most `count`.
 */
static int driver_probe_ask(const char *driver, void (*question)(const void *), const void *of,
                            int *answer_to, int count)
{
	int ends[2], got = 0, status = 0;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0)
		return 0;
	child = fork();
	if (child == 0) {
		answers = ends[1];
		close(ends[0]);
		driver_probe_answer(driver, question, of);
	}
	close(ends[1]);
	while (child > 0 && got < count &&
	       read(ends[0], &answer_to[got], sizeof(*answer_to)) == (ssize_t)sizeof(*answer_to))
		got++;
	close(ends[0]);
	if (child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGALRM) {
		fprintf(stderr, "the driver does not answer within %d s\n", SECONDS);
		exit(LATE);
	}
	return got;
}

static void print(const char *name, int answer)
{
	if (answer == CRASHED)
		printf("%s crash\n", name);
	else
		printf("%s %d\n", name, answer);
}

typedef CUresult one_question(void);

static void ask_one(const void *of)
{
	one_question *const *question = of;

	tell_parent((int)(*question)());
}

static int driver_probe_tell(const char *driver, const char *name, one_question *question)
{
	int answer = CRASHED;

	(void)driver_probe_ask(driver, ask_one, &question, &answer, 1);
	print(name, answer);
	return answer;
}

/* --- NUMA nodes --- */

enum { NODES_MAX = 64 };
struct nodes {
	int count, number[NODES_MAX];
};

static struct nodes read_nodes(const char *text)
{
	struct nodes nodes = {0};

	for (char *end; nodes.count < NODES_MAX; text = end + 1) {
		nodes.number[nodes.count++] = (int)strtol(text, &end, 10);
		if (*end != ',')
			break;
	}
	return nodes;
}

static void ask_nodes(const void *of)
{
	const struct nodes *nodes = of;

	for (int i = 0; i < nodes->count; i++) {
		CUmemGenericAllocationHandle handle;
		CUresult error = make_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, nodes->number[i], &handle);

		if (error == CUDA_SUCCESS)
			(void)CALL(cuMemRelease, handle);
		tell_parent((int)error);
	}
}

/* Asks for all nodes in one process, and for those behind one that crashes in a further one. */
static void tell_nodes(const char *driver, struct nodes nodes)
{
	while (nodes.count > 0) {
		int answer[NODES_MAX],
		    got = driver_probe_ask(driver, ask_nodes, &nodes, answer, nodes.count);

		if (got < nodes.count)
			answer[got++] = CRASHED;
		for (int i = 0; i < got; i++) {
			char name[32];

			snprintf(name, sizeof(name), "numa %d", nodes.number[i]);
			print(name, answer[i]);
			if (answer[i] == CUDA_SUCCESS && node < 0)
				node = nodes.number[i];
		}
		nodes.count -= got;
		memmove(nodes.number, nodes.number + got,
		        (size_t)nodes.count * sizeof(*nodes.number));
	}
}

static void probe(const char *driver, const struct nodes *nodes)
{
	int host_answer;

	tell_nodes(driver, *nodes);
	host_answer = driver_probe_tell(driver, "host", host);
	if (node < 0 && host_answer != CUDA_SUCCESS) {
		static const char *const rest[] = {"copy", "node", "mixed", "unmap"};

		for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++)
			print(rest[i], CUDA_ERROR_NOT_SUPPORTED);
		return;
	}
	driver_probe_tell(driver, "copy", driver_probe_copy);
	driver_probe_tell(driver, "node", driver_probe_captured);
	driver_probe_tell(driver, "mixed", driver_probe_mixed);
	driver_probe_tell(driver, "unmap", unmap);
}

/* --- which devices there are --- */

enum { DEVICES_MAX = 64, NAME_MAX_SIZE = 64 };

/* Prints a device unless one of its name was printed. */
static void driver_probe_list_device(int i, char (*seen)[NAME_MAX_SIZE])
{
	int beside = 0;

	if (CALL(cuDeviceGetName, seen[i], NAME_MAX_SIZE, i) != CUDA_SUCCESS)
		return;
	for (int j = 0; j < i; j++)
		if (strcmp(seen[i], seen[j]) == 0)
			return;
	if (CALL(cuDeviceGetAttribute, &beside, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, i) !=
	        CUDA_SUCCESS ||
	    beside < 0)
		beside = 0;
	printf("device %d node %d %s\n", i, beside, seen[i]);
}

static void ask_list(const void *unused)
{
	char seen[DEVICES_MAX][NAME_MAX_SIZE] = {{0}};
	int version = 0, count = 0;
	CUresult error = CALL(cuDriverGetVersion, &version);

	(void)unused;
	if (error == CUDA_SUCCESS)
		error = CALL(cuDeviceGetCount, &count);
	if (error == CUDA_SUCCESS) {
		printf("version %d\n", version);
		for (int i = 0; i < count && i < DEVICES_MAX; i++)
			driver_probe_list_device(i, seen);
		fflush(stdout);
	}
	tell_parent((int)error);
}

static int driver_probe_list(const char *driver)
{
	int answer = CRASHED;

	(void)driver_probe_ask(driver, ask_list, NULL, &answer, 1);
	if (answer != CUDA_SUCCESS)
		print("error", answer);
	return answer != CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
	struct nodes nodes;

	if (argc == 2)
		return driver_probe_list(argv[1]);
	if (argc != 4) {
		fprintf(stderr, "usage: driver-probe DRIVER [DEVICE NODES]\n");
		return 2;
	}
	device = atoi(argv[2]);
	nodes = read_nodes(argv[3]);
	probe(argv[1], &nodes);
	return fflush(stdout) != 0;
}
