/* SPDX-License-Identifier: MIT */
/*
 * driven: obeys its input, a command per line, and answers each with a line.
 *
 *   alloc NAME KIB [alloc|pitch|async|create|export]
 *                                               NAME: a letter; export: as create, for other
 *                                               processes. The error
 *   part NAME OF KIB KIB                        NAME is that part of OF, by offset and size; 0
 *   fill NAME VALUE                             the error; all words
 *   check NAME VALUE                            how many words differ
 *   mix TO FROM SALT TIMES                      so many kernels; the error
 *   sum NAME...                                 over all their bytes
 *   free NAME, free_async NAME                  the error
 *   sync                                        the error
 *   memops NAME, range NAME, ipc NAME           SYNC_MEMOPS of a part, a range handle, an IPC
 *                                               handle: the error
 *   tokens NAME                                 P2P tokens: 0
 *   number NAME                                 its BUFFER_ID
 *   describe NAME KIB                           of the address so far in: start and size, as from
 *                                               the beginning of NAME; memory type, device, whether
 *                                               there is a host pointer, managed
 *   info                                        free and total bytes
 *   table NAME OF...                            fills NAME with the addresses of the others; the
 *                                               error
 *   mix_table NAME COUNT KIB SALT TIMES         kernels over the buffers in a table
 *   graph NAME... | replay TIMES                captures kernels over all of them | launches what
 *                                               was captured
 *   block, unblock                              a stream waits for a word of the host | which is
 *                                               written; the error
 *   mix_blocked TO FROM SALT                    a kernel behind the wait
 *   resident                                    bytes of the process that are in memory (VmRSS)
 *   context, thread                             makes one more: not current | until the end; the
 *                                               error
 *   limit FILE BYTES [LINE...]                  writes a configuration, at which jobs look
 *   held                                        bytes on the device, by its own books
 *   rise BYTES                                  as settle, until so many are
 *   try COMMAND...                              once more if it answers an error
 *   settle BYTES                                waits until no more are on the device, by its own
 *                                               books; 0, or 1: too long
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"
#include "tests/softgpu/machine.h"

/* The books are read from their file: who stands before the driver has not its other symbols. */
enum { WORDS_MAX = 32, SETTLE_MS = 100000 };

static struct elastic gpu;
static CUstream blocked;
static uint32_t *gate; /* of the host */
static CUgraphExec graph;

static struct memory {
	CUdeviceptr address;
	size_t size;
	const char *how;
	CUmemAllocationHandleType handle_types;
	CUmemGenericAllocationHandle handle;
} memories[26];

static struct memory *named(const char *name)
{
	if (!name || name[0] < 'a' || name[0] > 'z' || name[1]) {
		fprintf(stderr, "driven: '%s': expected a letter\n", name ? name : "");
		exit(2);
	}
	return &memories[name[0] - 'a'];
}

static uint32_t number(const char *text)
{
	return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static uint64_t bytes(const char *text)
{
	return text ? strtoull(text, NULL, 10) : 0;
}

static CUresult create(struct memory *memory)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                            .requestedHandleTypes = memory->handle_types};
	CUmemAccessDesc access = {.location = prop.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result = cuMemCreate(&memory->handle, memory->size, &prop, 0);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuMemAddressReserve(&memory->address, memory->size, 0, 0, 0);
	if (result == CUDA_SUCCESS)
		result = cuMemMap(memory->address, memory->size, 0, memory->handle, 0);
	if (result == CUDA_SUCCESS)
		result = cuMemSetAccess(memory->address, memory->size, &access, 1);
	return result;
}

static CUresult allocate(struct memory *memory, const char *kib, const char *how)
{
	size_t pitch;

	memory->size = (size_t)number(kib) << 10;
	memory->how = how && strcmp(how, "async") == 0    ? "async"
	              : how && strcmp(how, "pitch") == 0  ? "pitch"
	              : how && strcmp(how, "create") == 0 ? "create"
	              : how && strcmp(how, "export") == 0 ? "create"
	                                                  : "alloc";
	memory->handle_types = how && strcmp(how, "export") == 0
	                           ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	                           : CU_MEM_HANDLE_TYPE_NONE;
	if (strcmp(memory->how, "async") == 0)
		return cuMemAllocAsync(&memory->address, memory->size, NULL);
	if (strcmp(memory->how, "pitch") == 0)
		return cuMemAllocPitch_v2(&memory->address, &pitch, 1024, memory->size / 1024, 4);
	if (strcmp(memory->how, "create") == 0)
		return create(memory);
	return cuMemAlloc_v2(&memory->address, memory->size);
}

static CUresult give_back(struct memory *memory)
{
	CUresult result;

	if (strcmp(memory->how, "create") != 0)
		return cuMemFree_v2(memory->address);
	result = cuMemUnmap(memory->address, memory->size);
	if (result == CUDA_SUCCESS)
		result = cuMemAddressFree(memory->address, memory->size);
	return result == CUDA_SUCCESS ? cuMemRelease(memory->handle) : result;
}

static size_t differing(const struct memory *memory, uint32_t value)
{
	uint32_t *copy = malloc(memory->size);
	size_t differ = 0;
	CUresult result = cuMemcpyDtoH_v2(copy, memory->address, memory->size);

	for (size_t i = 0; result == CUDA_SUCCESS && i < memory->size / 4; i++)
		differ += copy[i] != value;
	free(copy);
	return result == CUDA_SUCCESS ? differ : SIZE_MAX;
}

static CUresult mix(const struct memory *to, const struct memory *from, uint32_t salt,
                    uint32_t times, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < times && result == CUDA_SUCCESS; i++)
		result =
		    elastic_mix(&gpu, to->address, from->address,
		                to->size < from->size ? to->size : from->size, salt + i, stream);
	return result;
}

static CUresult mix_table(const struct memory *table, char **words)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < number(words[3]) && result == CUDA_SUCCESS; i++)
		result =
		    elastic_mix_table(&gpu, table->address, number(words[0]),
		                      (size_t)number(words[1]) << 10, number(words[2]) + i, NULL);
	return result;
}

static CUresult fill_table(const struct memory *table, char **names)
{
	CUdeviceptr addresses[WORDS_MAX];
	size_t count = 0;

	for (; names[count]; count++)
		addresses[count] = named(names[count])->address;
	return cuMemcpyHtoD_v2(table->address, addresses, count * sizeof(addresses[0]));
}

static CUresult capture(char **names)
{
	CUresult result;
	CUstream stream;
	CUgraph made;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (uint32_t i = 0; names[i]; i++)
		CHECK(mix(named(names[i]), named(names[i]), i, 1, stream));
	CHECK(cuStreamEndCapture(stream, &made));
	result = cuGraphInstantiateWithFlags(&graph, made, 0);
	CHECK(cuGraphDestroy(made));
	CHECK(cuStreamDestroy_v2(stream));
	return result;
}

static CUresult replay(uint32_t times)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < times && result == CUDA_SUCCESS; i++)
		result = cuGraphLaunch(graph, NULL);
	return result;
}

static CUresult block(void)
{
	*gate = 0;
	return cuStreamWaitValue32_v2(blocked, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static CUresult unblock(void)
{
	CUresult result;

	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	result = cuStreamSynchronize(blocked);
	if (result != CUDA_SUCCESS)
		cuStreamSynchronize(blocked);
	return result;
}

/* An error may be one that somebody made up: what follows relies on the wait. */
static CUresult synchronize(void)
{
	CUresult result = cuCtxSynchronize();

	if (result != CUDA_SUCCESS)
		cuCtxSynchronize();
	return result;
}

static CUresult set_memops(const struct memory *memory)
{
	unsigned int on = 1;

	return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory->address);
}

/* The software GPU has none to give; that they were asked for is what counts. */
static CUresult tokens(const struct memory *memory)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS both;

	cuPointerGetAttribute(&both, CU_POINTER_ATTRIBUTE_P2P_TOKENS, memory->address);
	return CUDA_SUCCESS;
}

static CUresult range_handle(const struct memory *memory)
{
	int descriptor = -1;
	CUresult result = cuMemGetHandleForAddressRange(&descriptor, memory->address, memory->size,
	                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

	if (result == CUDA_SUCCESS)
		close(descriptor);
	return result;
}

static CUresult ipc_handle(const struct memory *memory)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, memory->address);
}

static void describe(const struct memory *memory, uint32_t kib)
{
	CUdeviceptr at = memory->address + ((CUdeviceptr)kib << 10), base = 0;
	unsigned int type = 0, managed = 9, ordinal = 9;
	CUcontext context = NULL;
	void *host = NULL;
	size_t size = 0;
	CUresult range = cuMemGetAddressRange_v2(&base, &size, at);
	CUresult answers[] = {
	    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at),
	    cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at),
	    cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at),
	    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at),
	    cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at)};

	printf("%d %lld %zu type=%u device=%u host=%d managed=%u context=%d errors", (int)range,
	       (long long)(base - memory->address), size, type, ordinal, host != NULL, managed,
	       context == gpu.context);
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		printf(" %d", (int)answers[i]);
	printf("\n");
}

static void print_number(const struct memory *memory)
{
	unsigned long long number = 0;

	CHECK(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory->address));
	printf("%llu\n", number);
}

static void info(void)
{
	size_t free_bytes = 0, total = 0;

	CHECK(cuMemGetInfo_v2(&free_bytes, &total));
	printf("%zu %zu\n", free_bytes, total);
}

static void resident(void)
{
	unsigned long long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%*u %llu", &pages) != 1)
		exit(1);
	fclose(file);
	printf("%llu\n", pages * (unsigned long long)sysconf(_SC_PAGESIZE));
}

static int write_limit(char **words)
{
	const char *path = words[0];
	char next[4096];
	FILE *file;

	if (!path || !words[1])
		return 1;
	snprintf(next, sizeof(next), "%s.next", path);
	file = fopen(next, "w");
	if (!file)
		return 1;
	fprintf(file, "[gpu]\nmemory = %s%s\n", words[1],
	        words[1][strspn(words[1], "0123456789")] ? "" : "B");
	for (words += 2; *words; words++)
		fprintf(file, "%s\n", *words);
	return fclose(file) != 0 || rename(next, path) != 0 || elastic_ring() != 0;
}

static uint64_t on_device(void)
{
	struct softgpu_truth truth[16];
	int count = machine_truth(0, truth, 16);

	for (int i = 0; i < count && i < 16; i++)
		if (truth[i].pid == getpid())
			return truth[i].physical_bytes;
	return 0;
}

static int settle(uint64_t least, uint64_t most)
{
	for (int i = 0; i < SETTLE_MS / 5; i++) {
		if (on_device() >= least && on_device() <= most)
			return 0;
		elastic_sleep_ms(5);
	}
	return 1;
}

/* Commands that answer with a number, for the most part an error of the driver. */
static int with_memory(const char *command, struct memory *memory, char **words)
{
	if (strcmp(command, "alloc") == 0)
		return allocate(memory, words[0], words[0] ? words[1] : NULL);
	if (strcmp(command, "part") == 0) {
		memory->address = named(words[0])->address + ((size_t)number(words[1]) << 10);
		memory->size = (size_t)number(words[2]) << 10;
		return 0;
	}
	if (strcmp(command, "fill") == 0)
		return cuMemsetD32_v2(memory->address, number(words[0]), memory->size / 4);
	if (strcmp(command, "mix") == 0)
		return mix(memory, named(words[0]), number(words[1]), number(words[2]), NULL);
	if (strcmp(command, "mix_blocked") == 0)
		return mix(memory, named(words[0]), number(words[1]), 1, blocked);
	if (strcmp(command, "free") == 0)
		return give_back(memory);
	if (strcmp(command, "free_async") == 0)
		return cuMemFreeAsync(memory->address, NULL);
	if (strcmp(command, "memops") == 0)
		return set_memops(memory);
	if (strcmp(command, "tokens") == 0)
		return tokens(memory);
	if (strcmp(command, "range") == 0)
		return range_handle(memory);
	if (strcmp(command, "ipc") == 0)
		return ipc_handle(memory);
	if (strcmp(command, "table") == 0)
		return fill_table(memory, words);
	if (strcmp(command, "mix_table") == 0)
		return mix_table(memory, words);
	fprintf(stderr, "driven: '%s': unknown\n", command);
	exit(2);
}

static CUresult add_context(void)
{
	CUcontext made;
	CUresult result = cuCtxCreate_v2(&made, 0, 0);

	return result ? result : cuCtxPopCurrent_v2(&made);
}

static void *wait_for_the_end(void *cookie)
{
	for (;;)
		pause();
	return cookie;
}

static int add_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, wait_for_the_end, NULL);
}

static void obey(const char *command, char **words)
{
	uint64_t sum = 0;

	if (strcmp(command, "sync") == 0) {
		printf("%d\n", (int)synchronize());
	} else if (strcmp(command, "info") == 0) {
		info();
	} else if (strcmp(command, "resident") == 0) {
		resident();
	} else if (strcmp(command, "graph") == 0) {
		printf("%d\n", (int)capture(words));
	} else if (strcmp(command, "replay") == 0) {
		printf("%d\n", (int)replay(number(words[0])));
	} else if (strcmp(command, "block") == 0) {
		printf("%d\n", (int)block());
	} else if (strcmp(command, "unblock") == 0) {
		printf("%d\n", (int)unblock());
	} else if (strcmp(command, "context") == 0) {
		printf("%d\n", (int)add_context());
	} else if (strcmp(command, "thread") == 0) {
		printf("%d\n", add_thread());
	} else if (strcmp(command, "limit") == 0) {
		printf("%d\n", write_limit(words));
	} else if (strcmp(command, "settle") == 0) {
		printf("%d\n", settle(0, bytes(words[0])));
	} else if (strcmp(command, "rise") == 0) {
		printf("%d\n", settle(bytes(words[0]), UINT64_MAX));
	} else if (strcmp(command, "held") == 0) {
		printf("%llu\n", (unsigned long long)on_device());
	} else if (strcmp(command, "try") == 0) {
		int answer = with_memory(words[0], named(words[1]), words + 2);

		if (answer != CUDA_SUCCESS)
			answer = with_memory(words[0], named(words[1]), words + 2);
		printf("%d\n", answer);
	} else if (strcmp(command, "number") == 0) {
		print_number(named(words[0]));
	} else if (strcmp(command, "describe") == 0) {
		describe(named(words[0]), number(words[1]));
	} else if (strcmp(command, "check") == 0) {
		printf("%zu\n", differing(named(words[0]), number(words[1])));
	} else if (strcmp(command, "sum") == 0) {
		for (; *words; words++)
			sum = elastic_hash_device(sum, named(*words)->address, named(*words)->size);
		printf("%016llx\n", (unsigned long long)sum);
	} else {
		printf("%d\n", with_memory(command, named(words[0]), words + 1));
	}
}

int main(void)
{
	char line[1024];

	setvbuf(stdout, NULL, _IOLBF, 0);
	gpu = elastic_start();
	CHECK(cuStreamCreateWithPriority(&blocked, CU_STREAM_NON_BLOCKING, 0));
	CHECK(cuMemHostAlloc((void **)&gate, 4, 0));
	while (fgets(line, sizeof(line), stdin)) {
		char *words[WORDS_MAX + 1] = {NULL};
		size_t count = 0;

		for (char *word = strtok(line, " \n"); word && count < WORDS_MAX;
		     word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count)
			obey(words[0], words + 1);
	}
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu.device));
	return 0;
}
