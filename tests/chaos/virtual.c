/* SPDX-License-Identifier: MIT */
/*
 * Physical memory that is made, mapped, mapped elsewhere and twice, exported to other processes and
 * imported from them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

static struct sockaddr_un post_of(int number)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "post-%d", number);
	return address;
}

void virtual_begin(void)
{
	struct sockaddr_un address = post_of(worker.number);

	unlink(address.sun_path);
	worker.post = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (worker.post < 0 || bind(worker.post, (void *)&address, sizeof(address)) != 0)
		fail("socket: %s", strerror(errno));
}

static CUdeviceptr map_somewhere(const struct block *block)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	CUdeviceptr at;

	OK(cuMemAddressReserve(&at, block->size, 0, 0, 0));
	OK(cuMemMap(at, block->size, 0, block->handle, 0));
	OK(cuMemSetAccess(at, block->size, &access, 1));
	return at;
}

static void map(struct block *block)
{
	block->reserved = block->size;
	block->at = map_somewhere(block);
}

void do_virtual(struct dice *dice)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	size_t size = 2 * MIB * (1 + below(dice, 4));
	bool is_released = one_in(dice, 3), is_exportable = one_in(dice, 2);
	CUstream stream = any_stream(dice);
	struct block *block = block_new(KIND_VIRTUAL, size);

	if (!block)
		return;
	if (is_exportable)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (!HAD(cuMemCreate(&block->handle, size, &prop, 0))) {
		block->kind = KIND_NONE;
		return;
	}
	map(block);
	if (is_released) {
		OK(cuMemRelease(block->handle));
		block->handle = 0;
	}
	block->stream = stream;
	block_fill(block, dice);
}

static void unmap(struct block *block)
{
	OK(cuStreamSynchronize(block->stream));
	OK(cuMemUnmap(block->at, block->size));
	OK(cuMemAddressFree(block->at, block->reserved));
	if (block->alias) {
		OK(cuMemUnmap(block->alias, block->size));
		OK(cuMemAddressFree(block->alias, block->size));
	}
	block->alias = 0;
}

/* Maps it at a second address, or changes the two: what one shows the other has. */
static void use_alias(struct block *block)
{
	CUdeviceptr at = block->at;

	OK(cuStreamSynchronize(block->stream));
	block->at = block->alias ? block->alias : map_somewhere(block);
	block->alias = at;
}

void virtual_free(struct block *block)
{
	unmap(block);
	if (block->handle)
		OK(cuMemRelease(block->handle));
}

/* The same physical memory at other addresses, with the same bytes. */
void do_remap(struct dice *dice)
{
	struct block *block = block_any(dice, KIND(KIND_VIRTUAL), true);

	if (!block)
		return;
	graphs_forget(block->number);
	if (!block->handle)
		OK(cuMemRetainAllocationHandle(&block->handle, (void *)(uintptr_t)block->at));
	if (one_in(dice, 2)) {
		use_alias(block);
	} else {
		unmap(block);
		map(block);
	}
	block_verify(block);
}

/* A descriptor beside what its memory has in it. */
struct parcel {
	struct msghdr message;
	struct iovec iov;
	struct gift gift;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static void parcel_init(struct parcel *parcel)
{
	memset(parcel, 0, sizeof(*parcel));
	parcel->iov = (struct iovec){&parcel->gift, sizeof(parcel->gift)};
	parcel->message = (struct msghdr){.msg_iov = &parcel->iov,
	                                  .msg_iovlen = 1,
	                                  .msg_control = parcel->control,
	                                  .msg_controllen = sizeof(parcel->control)};
}

static bool post(int to, int file, const struct block *block)
{
	struct sockaddr_un address = post_of(to);
	struct parcel parcel;
	struct cmsghdr *header;

	parcel_init(&parcel);
	parcel.gift = (struct gift){
	    .size = block->size, .factor = block->pattern.factor, .term = block->pattern.term};
	parcel.message.msg_name = &address;
	parcel.message.msg_namelen = sizeof(address);
	header = CMSG_FIRSTHDR(&parcel.message);
	*header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(header), &file, sizeof(file));
	return sendmsg(worker.post, &parcel.message, MSG_NOSIGNAL) >= 0;
}

void do_send(struct dice *dice)
{
	int to = (worker.number + 1 + (int)below(dice, WORKERS - 1)) % WORKERS, file;
	struct block *block = block_any(dice, KIND(KIND_VIRTUAL), false);
	CUmemAllocationProp prop;

	if (!block || !block->handle)
		return;
	OK(cuMemGetAllocationPropertiesFromHandle(&prop, block->handle));
	if (prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		note(" is not to be exported");
		return;
	}
	OK(cuStreamSynchronize(block->stream));
	if (!HAD(cuMemExportToShareableHandle(&file, block->handle,
	                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
		return;
	graphs_forget(block->number);
	block->is_given = true;
	note(post(to, file, block) ? ": sent" : ": not sent");
	close(file);
}

void do_receive(struct dice *dice)
{
	struct parcel parcel;
	struct cmsghdr *header;
	struct block *block;
	CUresult result;
	int file;

	(void)dice;
	parcel_init(&parcel);
	if (recvmsg(worker.post, &parcel.message, MSG_CMSG_CLOEXEC) < 0) {
		note(": nothing");
		return;
	}
	header = CMSG_FIRSTHDR(&parcel.message);
	if (!header) {
		note(": no descriptor");
		return;
	}
	memcpy(&file, CMSG_DATA(header), sizeof(file));
	block = block_new(KIND_IMPORTED, parcel.gift.size);
	if (!block) {
		close(file);
		return;
	}
	/*
	 * The software GPU counts it for this process from the import on, which is before anybody
	 * can know its size and charge or refuse it, and for as long as somebody has a descriptor
	 * of it, though it may be released by then.
	 */
	unrefused_comes(block->size);
	result = cuMemImportFromShareableHandle(&block->handle, (void *)(uintptr_t)file,
	                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(file);
	/* Whoever sent it may be dead. */
	if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
	    !HAD(result)) {
		note(": error %d", result);
		block->kind = KIND_NONE;
		return;
	}
	map(block);
	block->pattern = (struct pattern){parcel.gift.factor, parcel.gift.term};
	block_verify(block);
}
