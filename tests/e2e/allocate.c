/* SPDX-License-Identifier: MIT */
/*
 * allocate [OPTIONS]: takes device memory in a chosen way, fills and verifies every block, frees
 * it.
 *
 *   --api alloc|pitch|async|create|managed   how (alloc)
 *   --mib N --count N                        block size and number (8, 8)
 *   --rounds N --hold-ms N                   how often, and how long each round keeps it (1, 0)
 *   --ready FILE                             created when the first round holds its memory
 *   --until FILE                             each round keeps it until this file is there
 *   --device N                               which device (0)
 *   --look                                   ends with status 3 where the device has not so much
 *   --fork                                   a forked child calls the driver and exits, before the
 *                                            end
 *
 * Prints per round the answer of cuMemGetInfo while the memory is held. It also prints the answers
 * of pointer queries about the last block, and the number of refused blocks. Exit status 1 when a
 * byte was wrong.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS_MAX = 4096 };

static struct {
	const char *api;
	size_t size;
	int count, rounds, hold_ms, device;
	const char *ready, *until;
	bool look, fork;
} options = {"alloc", (size_t)8 << 20, 8, 1, 0, 0, NULL, NULL, false, false};

struct block {
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;
};

static struct block blocks[BLOCKS_MAX];

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "allocate: %s: error %d\n", what, (int)result);
		exit(2);
	}
}
#define CHECK(call) check(call, #call)

static CUresult create(struct block *block)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result;

	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = access.location.id = options.device;
	result = cuMemCreate(&block->handle, options.size, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	CHECK(cuMemAddressReserve(&block->address, options.size, 0, 0, 0));
	CHECK(cuMemMap(block->address, options.size, 0, block->handle, 0));
	CHECK(cuMemRelease(block->handle)); /* the mapping keeps it */
	CHECK(cuMemSetAccess(block->address, options.size, &access, 1));
	return result;
}

static CUresult take(struct block *block)
{
	size_t pitch;

	if (strcmp(options.api, "pitch") == 0)
		return cuMemAllocPitch_v2(&block->address, &pitch, 1000, options.size / 1024, 4);
	if (strcmp(options.api, "async") == 0)
		return cuMemAllocAsync(&block->address, options.size, NULL);
	if (strcmp(options.api, "create") == 0)
		return create(block);
	if (strcmp(options.api, "managed") == 0)
		return cuMemAllocManaged(&block->address, options.size, CU_MEM_ATTACH_GLOBAL);
	return cuMemAlloc_v2(&block->address, options.size);
}

static void give_back(struct block *block)
{
	if (strcmp(options.api, "async") == 0) {
		CHECK(cuMemFreeAsync(block->address, NULL));
	} else if (strcmp(options.api, "create") == 0) {
		CHECK(cuMemUnmap(block->address, options.size));
		CHECK(cuMemAddressFree(block->address, options.size));
	} else {
		CHECK(cuMemFree_v2(block->address));
	}
}

static size_t usable(void)
{
	return strcmp(options.api, "pitch") == 0 ? options.size / 1024 * 1000 : options.size;
}

static void describe(const struct block *block)
{
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	                               CU_POINTER_ATTRIBUTE_HOST_POINTER,
	                               CU_POINTER_ATTRIBUTE_IS_MANAGED};
	unsigned int type = 0, many_type = 0;
	int managed = -1;
	void *host = (void *)1;
	void *data[] = {&many_type, &host, &managed};
	CUdeviceptr base = 0;
	size_t size = 0;

	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block->address + 1));
	CHECK(cuPointerGetAttributes(3, names, data, block->address + 1));
	CHECK(cuMemGetAddressRange_v2(&base, &size, block->address + 1));
	printf("type=%u,%u host=%d managed=%d base_is_start=%d range=%zu\n", type, many_type,
	       host != NULL, managed, base == block->address, size);
}

static int round_trip(int round)
{
	size_t words = usable() / 4, free_bytes, total;
	uint32_t *copy = malloc(words * 4);
	int got = 0, bad = 0, kept;

	errno = 4711;
	while (got < options.count && take(&blocks[got]) == CUDA_SUCCESS)
		got++;
	kept = errno == 4711;
	for (int i = 0; i < got; i++)
		CHECK(cuMemsetD32_v2(blocks[i].address, (unsigned int)(round * 1000 + i), words));
	CHECK(cuMemGetInfo_v2(&free_bytes, &total));
	printf("round %d: blocks=%d refused=%d free=%zu total=%zu errno=%s\n", round, got,
	       options.count - got, free_bytes, total, kept ? "kept" : "changed");
	fflush(stdout);
	if (options.ready && round == 0)
		close(open(options.ready, O_CREAT | O_WRONLY, 0600));
	if (options.hold_ms)
		nanosleep(
		    &(struct timespec){options.hold_ms / 1000, options.hold_ms % 1000 * 1000000L},
		    NULL);
	while (options.until && access(options.until, F_OK) != 0)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	for (int i = 0; i < got; i++) {
		CHECK(cuMemcpyDtoH_v2(copy, blocks[i].address, words * 4));
		for (size_t w = 0; w < words; w++)
			bad += copy[w] != (uint32_t)(round * 1000 + i);
	}
	if (got)
		describe(&blocks[got - 1]);
	for (int i = 0; i < got; i++)
		give_back(&blocks[i]);
	free(copy);
	return bad;
}

/* A data loader: forked, calls the driver once by mistake, exits. */
static void fork_a_child(void)
{
	CUdeviceptr address;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		cuMemAlloc_v2(&address, 1 << 20);
		cuMemFree_v2(4096);
		_exit(7);
	}
	waitpid(pid, &status, 0);
	printf("child=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* As a program that wants to fail early. */
static void look(CUdevice device)
{
	size_t total;

	CHECK(cuDeviceTotalMem_v2(&total, device));
	if (total >= options.size * (size_t)options.count)
		return;
	printf("the device has %zu bytes, too few\n", total);
	exit(3);
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
	    {"api", required_argument, NULL, 'a'},
	    {"mib", required_argument, NULL, 'm'},
	    {"count", required_argument, NULL, 'c'},
	    {"rounds", required_argument, NULL, 'r'},
	    {"hold-ms", required_argument, NULL, 'h'},
	    {"ready", required_argument, NULL, 'y'},
	    {"until", required_argument, NULL, 'u'},
	    {"device", required_argument, NULL, 'd'},
	    {"look", no_argument, NULL, 'l'},
	    {"fork", no_argument, NULL, 'f'},
	    {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'a':
			options.api = optarg;
			break;
		case 'm':
			options.size = strtoull(optarg, NULL, 10) << 20;
			break;
		case 'c':
			options.count = atoi(optarg);
			break;
		case 'r':
			options.rounds = atoi(optarg);
			break;
		case 'h':
			options.hold_ms = atoi(optarg);
			break;
		case 'y':
			options.ready = optarg;
			break;
		case 'u':
			options.until = optarg;
			break;
		case 'd':
			options.device = atoi(optarg);
			break;
		case 'l':
			options.look = true;
			break;
		case 'f':
			options.fork = true;
			break;
		default:
			exit(2);
		}
	}
	if (options.count > BLOCKS_MAX)
		options.count = BLOCKS_MAX;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	int bad = 0;

	parse(argc, argv);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, options.device));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (options.look)
		look(device);
	for (int round = 0; round < options.rounds; round++)
		bad += round_trip(round);
	if (options.fork)
		fork_a_child();
	printf("%s bad=%d\n", bad ? "WRONG" : "ok", bad);
	return bad != 0;
}
