/*
 * driver-probe DRIVER NODES: tries, each in a process of its own, what some drivers do not survive
 * or refuse, and prints what came of it, a line each:
 *
 *   numa ERROR    physical memory on the first of these NUMA nodes of the host ("1,0"); "crash":
 *                 on any of them
 *   host ERROR    the same without a node
 *   copy ERROR    copies between such memory and the program's own
 *   node ERROR    a copy between both that was captured, when its memory has come to the device
 *   mixed ERROR   copies and fills over a border between it and memory of the device
 *   unmap ERROR   unmapping and releasing beside work that runs; 600: they wait for it
 *
 * ERROR is the driver's, 0 for none, or "crash". The shim runs it before it needs the first of
 * these in a user's process (core/memory/arena/host_probe.h). The device is the first that is
 * visible.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5"); /* as core/base/glibc.h has others */
#elif defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
#endif

enum { UNIT = 2 << 20, SECONDS = 20, CRASHED = -1 };

static void *library;
static const char *nodes;
static int node; /* the first */
static bool numa_works;

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

static CUresult make(CUmemLocationType where, CUmemGenericAllocationHandle *handle)
{
	return make_at(where, where == CU_MEM_LOCATION_TYPE_HOST_NUMA ? node : 0, handle);
}

static CUresult make_on_host(CUmemGenericAllocationHandle *handle)
{
	return make(numa_works ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_HOST,
	            handle);
}

static CUresult numa(void)
{
	CUmemGenericAllocationHandle handle;
	CUresult first = make(CU_MEM_LOCATION_TYPE_HOST_NUMA, &handle);
	const char *next = nodes;

	while ((next = strchr(next, ',')))
		make_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, atoi(++next), &handle);
	return first;
}

static CUresult host(void)
{
	CUmemGenericAllocationHandle handle;

	return make(CU_MEM_LOCATION_TYPE_HOST, &handle);
}

/* Maps memory one behind the other, as the letters say: h the host's, d the device's. */
static CUresult map(const char *places, CUdeviceptr *base)
{
	CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	size_t count = 0;

	while (places[count])
		count++;
	TRY(CALL(cuMemAddressReserve, base, count * UNIT, 0, 0, 0));
	for (size_t i = 0; i < count; i++) {
		CUmemGenericAllocationHandle handle;

		TRY(places[i] == 'h' ? make_on_host(&handle)
		                     : make(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
		TRY(CALL(cuMemMap, *base + i * UNIT, UNIT, 0, handle, 0));
	}
	return CALL(cuMemSetAccess, *base, count * UNIT, &access, 1);
}

static CUresult begin(void)
{
	CUcontext context;

	TRY(CALL(cuDevicePrimaryCtxRetain, &context, 0));
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

static CUresult copy(void)
{
	CUdeviceptr memory, other;

	TRY(begin());
	TRY(map("h", &memory));
	TRY(map("h", &other));
	TRY(copy_both_ways(memory, UNIT));
	TRY(CALL(cuMemcpyDtoD, memory, other, UNIT));
	TRY(CALL(cuMemsetD8, memory, 1, UNIT));
	return CALL(cuCtxSynchronize);
}

/* Puts memory of the device in the place of what is mapped there. */
static CUresult replace(CUdeviceptr address)
{
	CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	TRY(make(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
	TRY(CALL(cuMemUnmap, address, UNIT));
	TRY(CALL(cuMemMap, address, UNIT, 0, handle, 0));
	return CALL(cuMemSetAccess, address, UNIT, &access, 1);
}

static CUresult captured(void)
{
	unsigned char *own;
	CUdeviceptr memory;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	TRY(begin());
	TRY(map("h", &memory));
	TRY(CALL(cuMemAllocHost, (void **)&own, UNIT));
	TRY(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
	TRY(CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	TRY(CALL(cuMemcpyDtoHAsync, own, memory, UNIT, stream));
	TRY(CALL(cuStreamEndCapture, stream, &graph));
	TRY(CALL(cuGraphInstantiateWithFlags, &exec, graph, 0));
	TRY(replace(memory));
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

static CUresult mixed(void)
{
	CUdeviceptr device_first, host_first, plain;

	TRY(begin());
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

	TRY(begin());
	TRY(map("d", &memory));
	TRY(map("d", &used));
	TRY(make(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
	TRY(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
	TRY(CALL(cuLaunchHostFunc, stream, run, NULL));
	/* The device itself has something before it, too: who waits may ask only that. */
	TRY(CALL(cuMemsetD8Async, used, 1, UNIT, stream));
	TRY(CALL(cuMemUnmap, memory, UNIT));
	TRY(CALL(cuMemRelease, handle));
	has_waited = __atomic_load_n(&has_ended, __ATOMIC_ACQUIRE);
	TRY(CALL(cuStreamSynchronize, stream));
	return has_waited ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/*
 * Opens the driver by glibc's own dlopen, which is in its own library: where the machine preloads
 * the shim into every process the shim's stands before it, and what is asked here is the driver.
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

/* Asks in a process of its own, in which the driver is opened. Returns the error, or CRASHED. */
static int ask(const char *driver, CUresult (*question)(void))
{
	int answers[2], answer = CRASHED;
	pid_t child;

	if (pipe(answers) != 0)
		return CRASHED;
	child = fork();
	if (child == 0) {
		alarm(SECONDS);
		library = open_driver(driver);
		answer = library ? (int)CALL(cuInit, 0) : CUDA_ERROR_NOT_INITIALIZED;
		if (answer == CUDA_SUCCESS)
			answer = (int)question();
		_exit(write(answers[1], &answer, sizeof(answer)) != (ssize_t)sizeof(answer));
	}
	close(answers[1]);
	if (child < 0 || read(answers[0], &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
		answer = CRASHED;
	close(answers[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return answer;
}

static int tell(const char *driver, const char *name, CUresult (*question)(void))
{
	int answer = ask(driver, question);

	if (answer == CRASHED)
		printf("%s crash\n", name);
	else
		printf("%s %d\n", name, answer);
	return answer;
}

int main(int argc, char **argv)
{
	bool has_memory;

	if (argc != 3) {
		fprintf(stderr, "usage: driver-probe DRIVER NODES\n");
		return 2;
	}
	nodes = argv[2];
	node = atoi(nodes);
	numa_works = tell(argv[1], "numa", numa) == CUDA_SUCCESS;
	has_memory = tell(argv[1], "host", host) == CUDA_SUCCESS || numa_works;
	if (has_memory) {
		tell(argv[1], "copy", copy);
		tell(argv[1], "node", captured);
		tell(argv[1], "mixed", mixed);
		tell(argv[1], "unmap", unmap);
	}
	return fflush(stdout) != 0;
}
