/* SPDX-License-Identifier: MIT */
/*
 * Two processes share one piece of memory. They do so by an IPC handle, with an IPC event that
 * orders the two, and by a file descriptor of virtual memory.
 *
 * The parent writes, the child checks, adds and checks again, the parent reads. The child is forked
 * before either touches the driver. Its checks reach the parent as one number; all lines are the
 * parent's.
 */
#include "tests/clients/samples/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50000, FIRST = 1000, ADDED = 7, PATIENCE_S = 200 };
enum { SEEN = 1, ADDED_TOO = 2 }; /* what the child found right */

static const size_t size = COUNT * sizeof(unsigned);
static int peer; /* a socket to the other process */
static pid_t child;

/* Everything sent is whole or the end of the program: the other side has died. */
static void send_bytes(const void *bytes, size_t length)
{
	if (send(peer, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
		program_die("sending to the other process: %s", strerror(errno));
}

static void receive_bytes(void *bytes, size_t length)
{
	if (recv(peer, bytes, length, MSG_WAITALL) != (ssize_t)length)
		program_die("the other process is gone");
}

static void send_descriptor(int descriptor)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part,
	                         .msg_iovlen = 1,
	                         .msg_control = control,
	                         .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
	if (sendmsg(peer, &message, MSG_NOSIGNAL) != 1)
		program_die("sending a descriptor: %s", strerror(errno));
}

static int receive_descriptor(void)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part,
	                         .msg_iovlen = 1,
	                         .msg_control = control,
	                         .msg_controllen = sizeof(control)};
	int descriptor;

	if (recvmsg(peer, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
		program_die("the other process is gone");
	memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return descriptor;
}

static bool all_are(CUdeviceptr memory, unsigned value)
{
	unsigned *host = sample_memory(size);
	bool all = true;

	sample_download(host, memory, size);
	for (size_t i = 0; i < COUNT; i++)
		all &= host[i] == value;
	free(host);
	return all;
}

static void add(CUfunction add_to_all, CUdeviceptr memory, CUstream stream)
{
	unsigned count = COUNT, number = ADDED;

	CLIENT_LAUNCH(add_to_all, (COUNT + 255) / 256, 1, 256, stream, &memory, &count, &number);
}

/* Uses memory that the child has opened. Returns what it found right. */
static int use(CUfunction add_to_all, CUdeviceptr memory)
{
	int found = all_are(memory, FIRST) ? SEEN : 0;

	add(add_to_all, memory, NULL);
	CU(cuCtxSynchronize());
	return found | (all_are(memory, FIRST + ADDED) ? ADDED_TOO : 0);
}

static CUmemAccessDesc device_access(void)
{
	return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static void run_child(void)
{
	CUipcMemHandle memory_handle;
	CUipcEventHandle event_handle;
	CUdeviceptr memory;
	CUevent event;
	char go;

	receive_bytes(&go, 1); /* only once the parent knows that the driver can */
	if (!go)
		_exit(0);
	CUmodule module = sample_open("ipc.ptx");
	CUfunction add_to_all = client_function(module, "add_to_all");

	receive_bytes(&memory_handle, sizeof(memory_handle));
	receive_bytes(&event_handle, sizeof(event_handle));
	CU(cuIpcOpenMemHandle(&memory, memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CU(cuIpcOpenEventHandle(&event, event_handle));
	CU(cuStreamWaitEvent(NULL, event, 0));
	int found = use(add_to_all, memory);
	CU(cuIpcCloseMemHandle(memory));
	CU(cuEventDestroy(event));
	send_bytes(&found, sizeof(found));

	receive_bytes(&go, 1);
	if (go) {
		size_t bytes;
		CUmemGenericAllocationHandle handle;
		CUmemAccessDesc access = device_access();
		int descriptor = receive_descriptor();

		receive_bytes(&bytes, sizeof(bytes));
		CU(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor,
		                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		close(descriptor);
		CU(cuMemAddressReserve(&memory, bytes, 0, 0, 0));
		CU(cuMemMap(memory, bytes, 0, handle, 0));
		CU(cuMemSetAccess(memory, bytes, &access, 1));
		found = use(add_to_all, memory);
		CU(cuMemUnmap(memory, bytes));
		CU(cuMemRelease(handle));
		CU(cuMemAddressFree(memory, bytes));
		send_bytes(&found, sizeof(found));
	}
	CU(cuModuleUnload(module));
	_exit(0);
}

static void check_child(const char *what)
{
	int found;

	receive_bytes(&found, sizeof(found));
	sample_check(found & SEEN, "%s: the child sees what the parent wrote", what);
	sample_check(found & ADDED_TOO, "%s: and its own writes", what);
}

static void share_by_ipc_handle(void)
{
	CUipcMemHandle memory_handle;
	CUipcEventHandle event_handle;
	CUdeviceptr memory = client_alloc(size);
	CUevent event;
	char go = 1;
	CUresult result = cuIpcGetMemHandle(&memory_handle, memory);

	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		go = 0;
		send_bytes(&go, 1);
		waitpid(child, NULL, 0);
	}
	sample_needs(result, "cuIpcGetMemHandle");
	CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CU(cuIpcGetEventHandle(&event_handle, event));
	CU(cuMemsetD32Async(memory, FIRST, COUNT, NULL));
	CU(cuEventRecord(event, NULL));
	send_bytes(&go, 1);
	send_bytes(&memory_handle, sizeof(memory_handle));
	send_bytes(&event_handle, sizeof(event_handle));
	check_child("IPC handle");
	sample_check(all_are(memory, FIRST + ADDED),
	             "IPC handle: the parent sees the child's writes");
	CU(cuEventDestroy(event));
	client_free(&memory, size);
}

static void share_by_descriptor(void)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemAccessDesc access = device_access();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;
	size_t bytes;
	int supported = 0, descriptor;

	CU(cuDeviceGetAttribute(
	    &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
	char go = supported != 0;
	send_bytes(&go, 1);
	if (!supported)
		return;
	CU(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CU(cuMemCreate(&handle, bytes, &properties, 0));
	CU(cuMemExportToShareableHandle(&descriptor, handle,
	                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CU(cuMemAddressReserve(&memory, bytes, 0, 0, 0));
	CU(cuMemMap(memory, bytes, 0, handle, 0));
	CU(cuMemSetAccess(memory, bytes, &access, 1));
	CU(cuMemsetD32(memory, FIRST, COUNT));
	CU(cuCtxSynchronize());
	send_descriptor(descriptor);
	close(descriptor);
	send_bytes(&bytes, sizeof(bytes));
	check_child("descriptor");
	sample_check(all_are(memory, FIRST + ADDED),
	             "descriptor: the parent sees the child's writes");
	CU(cuMemUnmap(memory, bytes));
	CU(cuMemRelease(handle));
	CU(cuMemAddressFree(memory, bytes));
}

int main(void)
{
	int sockets[2], status;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		program_die("socketpair: %s", strerror(errno));
	alarm(PATIENCE_S); /* neither side waits for ever for the other */
	child = fork();
	if (child < 0)
		program_die("fork: %s", strerror(errno));
	peer = sockets[child == 0];
	close(sockets[child != 0]);
	if (child == 0) {
		alarm(PATIENCE_S);
		run_child();
	}
	sample_open(NULL);
	share_by_ipc_handle();
	share_by_descriptor();
	if (waitpid(child, &status, 0) != child)
		program_die("waiting for the child: %s", strerror(errno));
	sample_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended well");
	return sample_end();
}
