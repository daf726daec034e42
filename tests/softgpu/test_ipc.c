/* SPDX-License-Identifier: MIT */
/*
 * Tests of objects that one process gives to another: memory by handle and by descriptor, pools,
 * events. Either process may die.
 */
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

/* Two processes and the socket between them. Messages keep their bounds. */
static int peer;
static pid_t other;

static void become_two(void (*child)(void))
{
	int ends[2];
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	other = fork_bound();
	CHECK(other >= 0);
	peer = ends[other == 0];
	close(ends[other != 0]);
	if (other == 0) {
		alarm(300);
		child();
		exit(0);
	}
}

static void put(const void *data, size_t size)
{
	CHECK(send(peer, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static void get(void *data, size_t size)
{
	CHECK(recv(peer, data, size, 0) == (ssize_t)size);
}

static void put_descriptor(int file)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	struct iovec byte = {.iov_base = (char[]){'x'}, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
	                         .msg_iovlen = 1,
	                         .msg_control = control.bytes,
	                         .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &file, sizeof(int));
	CHECK(sendmsg(peer, &message, 0) == 1);
}

static int get_descriptor(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	int file;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
	                         .msg_iovlen = 1,
	                         .msg_control = control.bytes,
	                         .msg_controllen = sizeof(control.bytes)};
	CHECK(recvmsg(peer, &message, 0) == 1);
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	CHECK(header);
	memcpy(&file, CMSG_DATA(header), sizeof(int));
	return file;
}

/* A step of the other process is over. */
static void tell(void)
{
	put("x", 1);
}

static void await(void)
{
	char byte;
	get(&byte, 1);
}

static void end_other(int signal)
{
	int status;
	if (signal)
		kill(other, signal);
	waitpid(other, &status, 0);
	CHECK(signal ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void write_text(CUdeviceptr address, const char *text)
{
	OK(cuMemcpyHtoD_v2(address, text, strlen(text) + 1));
}

static void expect_text(CUdeviceptr address, const char *text)
{
	char found[64] = "";
	OK(cuMemcpyDtoH_v2(found, address, strlen(text) + 1));
	CHECK(strcmp(found, text) == 0);
}

static uint64_t device_used(void)
{
	size_t available, total;
	OK(cuMemGetInfo_v2(&available, &total));
	return total - available;
}

static uint64_t bytes_of(pid_t pid)
{
	struct softgpu_truth truth[8];
	int count = softgpu_truth(0, truth, 8);
	for (int i = 0; i < count && i < 8; i++)
		if (truth[i].pid == pid)
			return truth[i].physical_bytes;
	return 0;
}

/* Exports a large and two small allocations. */
static void exporter(void)
{
	start();
	CUdeviceptr large, small, second;
	CUipcMemHandle handles[3];
	OK(cuMemAlloc_v2(&large, 4 * MIB));
	OK(cuMemAlloc_v2(&small, 1000));
	OK(cuMemAlloc_v2(&second, 1000));
	write_text(large, "large");
	write_text(large + 4 * MIB - 16, "its end");
	write_text(small, "small");
	write_text(second, "second");
	CUdeviceptr own;
	OK(cuIpcGetMemHandle(&handles[0], large));
	OK(cuIpcGetMemHandle(&handles[1], small));
	OK(cuIpcGetMemHandle(&handles[2], second));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handles[0], large + 512));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&own, handles[0], 1));
	put(handles, sizeof(handles));
	await(); /* the other has written */
	expect_text(large + 100, "from the other side");
	expect_text(second, "");
	unsigned int word;
	OK(cuMemcpyDtoH_v2(&word, small, 4));
	CHECK(word == 7);
	tell();
	await(); /* the other has closed */
	CHECK(physical_bytes(0) == 14 * MIB);
	OK(cuMemFree_v2(large));
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(second));
	CHECK(physical_bytes(0) == 8 * MIB);
}

static void memory_by_handle(void)
{
	CUipcMemHandle handles[3], broken;
	CUdeviceptr large, small, second, again, base;
	size_t size;
	become_two(exporter);
	start();
	get(handles, sizeof(handles));
	memset(&broken, 1, sizeof(broken));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&large, broken, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&large, handles[0], 0));
	OK(cuIpcOpenMemHandle_v2(&large, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle_v2(&again, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle(&small, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle_v2(&second, handles[2], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(again == large && small != second);
	expect_text(large, "large");
	expect_text(large + 4 * MIB - 16, "its end");
	expect_text(small, "small");
	expect_text(second, "second");
	OK(cuMemGetAddressRange_v2(&base, &size, small + 10));
	CHECK(base == small && size == 1000);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(small, 0, 1001));
	/* It is the exporter's memory, and counted once. */
	CHECK(bytes_of(other) == 14 * MIB && physical_bytes(0) == 8 * MIB);
	CHECK(device_used() == 22 * MIB);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(large));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&broken, large));
	write_text(large + 100, "from the other side");
	write_text(second, "");
	/* Kernels use it as their own. */
	CUmodule module;
	CUfunction fill;
	unsigned int value = 7, count = 1;
	void *parameters[] = {&small, &value, &count};
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
	OK(cuCtxSynchronize());
	OK(cuModuleUnload(module));
	tell();
	await();
	OK(cuIpcCloseMemHandle(large));
	expect_text(large, "large"); /* it was opened twice */
	OK(cuIpcCloseMemHandle(large));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(large, 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(large));
	OK(cuIpcCloseMemHandle(small));
	OK(cuIpcCloseMemHandle(second));
	tell();
	end_other(0);
	CHECK(device_used() == 8 * MIB);
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&large, handles[0], 1));
}

static void export_and_hang(void)
{
	start();
	CUdeviceptr memory;
	CUipcMemHandle handle;
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	write_text(memory, "outlives its maker");
	OK(cuIpcGetMemHandle(&handle, memory));
	put(&handle, sizeof(handle));
	for (;;)
		pause();
}

/* Kills the exporter: what is open stays, and stays charged; nobody new may open it. */
static void exporter_killed(void)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;
	become_two(export_and_hang);
	start();
	get(&handle, sizeof(handle));
	OK(cuIpcOpenMemHandle_v2(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(device_used() == 20 * MIB && physical_bytes(0) == 8 * MIB);
	end_other(SIGKILL);
	CHECK(device_used() == 12 * MIB && physical_bytes(0) == 12 * MIB);
	expect_text(memory, "outlives its maker");
	OK(cuIpcCloseMemHandle(memory));
	CHECK(device_used() == 8 * MIB && physical_bytes(0) == 8 * MIB);
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&memory, handle, 1));
}

static CUmemAllocationProp exportable(CUmemLocationType type)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                             .requestedHandleTypes =
	                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                             .location = {.type = type}};
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size)
{
	CUdeviceptr base;
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	OK(cuMemAddressReserve(&base, size, 0, 0, 0));
	OK(cuMemMap(base, size, 0, handle, 0));
	OK(cuMemSetAccess(base, size, &access, 1));
	return base;
}

static CUresult import(CUmemGenericAllocationHandle *handle, int file)
{
	return cuMemImportFromShareableHandle(handle, (void *)(intptr_t)file,
	                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static void give_descriptor(void)
{
	start();
	CUmemAllocationProp wanted = exportable(CU_MEM_LOCATION_TYPE_DEVICE);
	CUmemGenericAllocationHandle handle;
	int file;
	OK(cuMemCreate(&handle, 4 * MIB, &wanted, 0));
	CUdeviceptr base = map(handle, 4 * MIB);
	write_text(base + MIB, "by descriptor");
	OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                0));
	put_descriptor(file);
	close(file);
	await(); /* the other has it */
	expect_text(base, "back");
	OK(cuMemUnmap(base, 4 * MIB));
	OK(cuMemRelease(handle));
	CHECK(physical_bytes(0) == 8 * MIB);
	tell();
	await();
	/* Once more; this time the descriptor alone stays. */
	OK(cuMemCreate(&handle, 4 * MIB, &wanted, 0));
	base = map(handle, 4 * MIB);
	write_text(base, "in flight");
	OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                0));
	put_descriptor(file);
	close(file);
	OK(cuMemUnmap(base, 4 * MIB));
	OK(cuMemRelease(handle));
	tell();
	for (;;)
		pause();
}

static void memory_by_descriptor(void)
{
	CUmemGenericAllocationHandle handle, same;
	CUmemAllocationProp found;
	become_two(give_descriptor);
	start();
	int file = get_descriptor();
	EXPECT(CUDA_ERROR_INVALID_VALUE, import(&handle, -1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, import(&handle, peer));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
	       cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
	                                      CU_MEM_HANDLE_TYPE_FABRIC));
	OK(import(&handle, file));
	OK(import(&same, file));
	close(file);
	OK(cuMemGetAllocationPropertiesFromHandle(&found, handle));
	CHECK(found.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
	CUdeviceptr base = map(handle, 4 * MIB);
	expect_text(base + MIB, "by descriptor");
	write_text(base, "back");
	CHECK(device_used() == 20 * MIB && physical_bytes(0) == 8 * MIB);
	tell();
	await(); /* the exporter has let go of it */
	CHECK(device_used() == 20 * MIB && physical_bytes(0) == 12 * MIB);
	expect_text(base + MIB, "by descriptor");
	OK(cuMemUnmap(base, 4 * MIB));
	OK(cuMemRelease(handle));
	OK(cuMemRelease(same));
	CHECK(device_used() == 16 * MIB);
	tell();
	file = get_descriptor();
	await();
	CHECK(device_used() == 20 * MIB); /* nobody has it but the descriptor */
	end_other(SIGKILL);
	OK(import(&handle, file));
	base = map(handle, 4 * MIB);
	expect_text(base, "in flight");
	CHECK(device_used() == 12 * MIB && physical_bytes(0) == 12 * MIB);
	OK(cuMemUnmap(base, 4 * MIB));
	OK(cuMemRelease(handle));
	CHECK(device_used() == 12 * MIB);
	close(file);
	CHECK(device_used() == 8 * MIB);
}

static void what_cannot_be_exported(void)
{
	start();
	CUmemAllocationProp wanted = exportable(CU_MEM_LOCATION_TYPE_HOST);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr pooled;
	CUipcMemHandle ipc;
	void *pinned;
	int file;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	wanted = exportable(CU_MEM_LOCATION_TYPE_DEVICE);
	wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	OK(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                    0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&ipc, map(handle, 2 * MIB)));
	OK(cuMemAllocAsync(&pooled, 100, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&ipc, pooled));
	OK(cuMemHostAlloc(&pinned, 100, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&ipc, (CUdeviceptr)pinned));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(NULL, pooled));
}

static void give_pool(void)
{
	start();
	CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                         .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool, plain;
	CUdeviceptr memory, other_memory;
	CUmemPoolPtrExportData data;
	int file;
	OK(cuMemPoolCreate(&pool, &wanted));
	OK(cuDeviceGetDefaultMemPool(&plain, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemPoolExportToShareableHandle(&file, plain,
	                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                    0));
	OK(cuMemAllocFromPoolAsync(&other_memory, 1000, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&memory, 3000, pool, NULL));
	write_text(memory, "from a pool");
	OK(cuMemPoolExportPointer(&data, memory));
	put_descriptor(file);
	close(file);
	put(&data, sizeof(data));
	await();
	expect_text(memory + 64, "and back");
	OK(cuMemFreeAsync(memory, NULL));
	OK(cuMemFreeAsync(other_memory, NULL));
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == 8 * MIB);
}

static void pools(void)
{
	CUmemoryPool pool;
	CUmemPoolPtrExportData data;
	CUdeviceptr memory, again;
	become_two(give_pool);
	start();
	int file = get_descriptor();
	get(&data, sizeof(data));
	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file,
	                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(file);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&memory, 16, pool, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, pool));
	OK(cuMemPoolImportPointer(&memory, pool, &data));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&again, pool, &data));
	expect_text(memory, "from a pool");
	write_text(memory + 64, "and back");
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(memory));
	OK(cuMemFreeAsync(memory, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(memory, NULL));
	OK(cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&data, memory, 4));
	OK(cuMemPoolImportPointer(&memory, pool, &data));
	OK(cuMemPoolDestroy(pool)); /* which lasts while something of it does */
	expect_text(memory + 64, "and back");
	OK(cuMemFree_v2(memory));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
	tell();
	end_other(0);
}

/* Work of this process's stream that waits until the host writes the word. */
static uint32_t *hold_stream(CUstream stream)
{
	void *word;
	OK(cuMemHostAlloc(&word, 64, 0));
	memset(word, 0, 64);
	OK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	return word;
}

static void recorder(void)
{
	start();
	CUevent event, plain;
	CUipcEventHandle handle;
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, plain));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuEventQuery(event));
	OK(cuIpcGetEventHandle(&handle, event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&plain, handle));
	uint32_t *word = hold_stream(stream);
	OK(cuEventRecord(event, stream));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	put(&handle, sizeof(handle));
	await(); /* the other waits for it */
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	OK(cuEventSynchronize(event));
	await(); /* the other has recorded it, which is done only later */
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	tell();
	OK(cuEventSynchronize(event));
	/* And a recording that never gets done. */
	hold_stream(stream);
	OK(cuEventRecord(event, stream));
	tell();
	for (;;)
		pause();
}

static void events(void)
{
	CUipcEventHandle handle;
	CUevent event;
	CUstream stream;
	float milliseconds;
	become_two(recorder);
	start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	get(&handle, sizeof(handle));
	OK(cuIpcOpenEventHandle(&event, handle));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	OK(cuStreamWaitEvent(stream, event, 0));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, event, event));
	tell();
	OK(cuStreamSynchronize(stream));
	OK(cuEventQuery(event));
	uint32_t *word = hold_stream(stream);
	OK(cuEventRecord(event, stream));
	tell();
	await();
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	await();
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	OK(cuStreamWaitEvent(stream, event, 0));
	end_other(SIGKILL);
	/* Nobody is left to finish it: whoever waits goes on. */
	OK(cuStreamSynchronize(stream));
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy_v2(event));
	memset(&handle, 1, sizeof(handle));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&event, handle));
}

int main(void)
{
	int failed = 0;
	failed += RUN(memory_by_handle, NULL);
	failed += RUN(exporter_killed, NULL);
	failed += RUN(memory_by_descriptor, NULL);
	failed += RUN(what_cannot_be_exported, NULL);
	failed += RUN(pools, NULL);
	failed += RUN(events, NULL);
	return failed != 0;
}
