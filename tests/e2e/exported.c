/* SPDX-License-Identifier: MIT */
/*
 * exported CASE: programs make memory, give it to other processes and release it, in the orders of
 * NCCL, vLLM and careless programs. They know nothing of Spillway. Where LOOK names a program it is
 * run with a word that says where we are.
 *
 *   give PATH PIECES       gives so many pieces of 20 MiB, as descriptors, to who connects to the
 *                          socket PATH
 *   take PATH PIECES       takes and maps as many of them as it may, and says how many that were
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB   ((size_t)1 << 20)
#define PIECE (20 * MIB)
#define LAZY  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
enum { MOST = 18, ROUNDS = 10000, ROUNDS_OF_TWO = 2000 };

static int peer; /* a socket to the other process */
static pid_t other;
static CUcontext context;
static const CUmemAllocationProp exportable = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .requestedHandleTypes =
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static void expect(CUresult expected, CUresult got, const char *call, int line)
{
	if (expected == got)
		return;
	fprintf(stderr, "%s:%d: pid %d: %s: expected %d, got %d\n", __FILE__, line, (int)getpid(),
	        call, (int)expected, (int)got);
	_exit(1);
}
#define EXPECT(expected, call) expect(expected, call, #call, __LINE__)
#define OK(call)               EXPECT(CUDA_SUCCESS, call)

static void check(bool right, const char *what, int line)
{
	if (right)
		return;
	fprintf(stderr, "%s:%d: pid %d: %s\n", __FILE__, line, (int)getpid(), what);
	_exit(1);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

static void look(const char *where)
{
	char command[256];

	if (!getenv("LOOK"))
		return;
	snprintf(command, sizeof(command), "%s %s", getenv("LOOK"), where);
	CHECK(system(command) == 0);
}

static void start_cuda(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
}

/* --- two processes --- */

static void become_two(void (*child)(void))
{
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	other = fork();
	CHECK(other >= 0);
	peer = ends[other == 0];
	close(ends[other != 0]);
	if (other != 0)
		return;
	alarm(200);
	start_cuda();
	child();
	exit(0);
}

static void end_other(void)
{
	int status;

	close(peer);
	CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && !WEXITSTATUS(status));
}

static void tell(char word)
{
	CHECK(send(peer, &word, 1, MSG_NOSIGNAL) == 1);
}

/* 0: the other has gone. */
static char await(void)
{
	char word = 0;

	return recv(peer, &word, 1, 0) == 1 ? word : 0;
}

static void send_descriptor(int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char word = 'f';
	struct iovec part = {&word, 1};
	struct msghdr message = {.msg_iov = &part,
	                         .msg_iovlen = 1,
	                         .msg_control = &control,
	                         .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(sendmsg(peer, &message, MSG_NOSIGNAL) == 1);
}

/* -1: there are no more. */
static int receive_descriptor(void)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char word;
	struct iovec part = {&word, 1};
	struct msghdr message = {.msg_iov = &part,
	                         .msg_iovlen = 1,
	                         .msg_control = &control,
	                         .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(peer, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

/* --- memory --- */

/* A piece that is mapped. */
struct piece {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
};

/*
 * Makes a piece that is exported, and so on the device: where that has no room, it is made all the
 * same, and its export is out of memory.
 */
static CUresult create(struct piece *piece, size_t size)
{
	CUresult result = cuMemCreate(&piece->handle, size, &exportable, 0);
	int fd;

	if (result != CUDA_SUCCESS)
		return result;
	result = cuMemExportToShareableHandle(&fd, piece->handle,
	                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (result == CUDA_SUCCESS)
		close(fd);
	else
		OK(cuMemRelease(piece->handle));
	return result;
}

static int export_of(const struct piece *piece)
{
	int fd = -1;

	OK(cuMemExportToShareableHandle(&fd, piece->handle,
	                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return fd;
}

static void allow(const struct piece *piece, size_t size, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                                .flags = flags};

	OK(cuMemSetAccess(piece->address, size, &access, 1));
}

static CUresult map(struct piece *piece, size_t size)
{
	CUresult result;

	OK(cuMemAddressReserve(&piece->address, size, 0, 0, 0));
	result = cuMemMap(piece->address, size, 0, piece->handle, 0);
	if (result != CUDA_SUCCESS) {
		OK(cuMemAddressFree(piece->address, size));
		return result;
	}
	allow(piece, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return CUDA_SUCCESS;
}

static CUresult import(struct piece *piece, int fd)
{
	return cuMemImportFromShareableHandle(&piece->handle, (void *)(intptr_t)fd,
	                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static void unmap(const struct piece *piece, size_t size)
{
	OK(cuMemUnmap(piece->address, size));
	OK(cuMemAddressFree(piece->address, size));
}

static void drop(const struct piece *piece, size_t size)
{
	unmap(piece, size);
	OK(cuMemRelease(piece->handle));
}

/* --- imported, then released by its owner --- */

/*
 * The software GPU sees that a descriptor was closed when its process makes memory the next time.
 */
static void see_closed(void)
{
	struct piece piece;

	OK(create(&piece, 2 * MIB));
	OK(cuMemRelease(piece.handle));
	tell('s');
}

static void have_it_seen(void)
{
	tell('s');
	CHECK(await() == 's');
}

/* Gives pieces that it releases at once, one each time the other asks, until there is no room. */
static void give_and_release(void)
{
	struct piece piece;
	int fd;

	for (char word; (word = await());) {
		if (word == 's') {
			see_closed();
			continue;
		}
		if (create(&piece, PIECE) != CUDA_SUCCESS) {
			tell('n');
			continue;
		}
		fd = export_of(&piece);
		OK(cuMemRelease(piece.handle));
		send_descriptor(fd);
		close(fd);
	}
}

static bool take(struct piece *piece)
{
	int fd;

	tell('?');
	fd = receive_descriptor();
	if (fd < 0)
		return false;
	OK(import(piece, fd));
	close(fd);
	OK(map(piece, PIECE));
	OK(cuMemsetD8_v2(piece->address, 7, PIECE));
	OK(cuCtxSynchronize());
	return true;
}

static void imported(void)
{
	struct piece piece[MOST] = {0};
	int count = 0;

	become_two(give_and_release);
	start_cuda();
	while (count < MOST && take(&piece[count]))
		count++;
	printf("imported %d\n", count);
	look("full");
	drop(&piece[--count], PIECE);
	CHECK(take(&piece[count]));
	count++;
	look("again");
	while (count)
		drop(&piece[--count], PIECE);
	have_it_seen();
	look("none");
	end_other();
}

/* --- kept as a descriptor --- */

static void descriptor(void)
{
	struct piece piece;
	int fd[MOST] = {0}, count = 0;

	start_cuda();
	for (; count < MOST && create(&piece, PIECE) == CUDA_SUCCESS; count++) {
		fd[count] = export_of(&piece);
		OK(cuMemRelease(piece.handle));
	}
	printf("kept %d\n", count);
	look("full");
	close(fd[--count]);
	OK(create(&piece, PIECE)); /* nobody told of the closing */
	OK(cuMemRelease(piece.handle));
	while (count)
		close(fd[--count]);
	OK(create(&piece, PIECE));
	OK(cuMemRelease(piece.handle));
	look("none");
}

/* --- by cuIpcGetMemHandle --- */

static void give_and_free(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;
	CUresult result;
	char word;

	while ((word = await())) {
		if (word == 's') {
			see_closed();
			continue;
		}
		OK(cuMemAlloc_v2(&address, PIECE));
		result = cuIpcGetMemHandle(&handle, address);
		if (result != CUDA_SUCCESS) {
			OK(cuMemFree_v2(address));
			tell('n');
			continue;
		}
		CHECK(send(peer, &handle, sizeof(handle), MSG_NOSIGNAL) == sizeof(handle));
		await();
		if (word == '?')
			OK(cuMemFree_v2(address));
		tell('f');
		await();
	}
}

static bool open_next(CUdeviceptr *address, char word)
{
	CUipcMemHandle handle;

	tell(word);
	if (recv(peer, &handle, sizeof(handle), 0) != sizeof(handle))
		return false;
	OK(cuIpcOpenMemHandle_v2(address, handle, LAZY));
	tell('o');
	CHECK(await() == 'f');
	tell('o');
	OK(cuMemsetD8_v2(*address, 7, PIECE));
	OK(cuCtxSynchronize());
	return true;
}

static void ipc(void)
{
	CUdeviceptr address[MOST] = {0};
	int count = 0;

	become_two(give_and_free);
	start_cuda();
	while (count < MOST && open_next(&address[count], '?'))
		count++;
	printf("opened %d\n", count);
	look("full");
	OK(cuIpcCloseMemHandle(address[--count]));
	CHECK(open_next(&address[count++], '?'));
	while (count)
		OK(cuIpcCloseMemHandle(address[--count]));
	have_it_seen();
	look("none");
	end_other();
}

/* --- its owner killed --- */

static void give_and_keep(void)
{
	struct piece piece;

	while (await()) {
		OK(create(&piece, PIECE));
		int fd = export_of(&piece);
		send_descriptor(fd);
		close(fd);
	}
	pause();
}

static void killed(void)
{
	struct piece piece[5], own;
	CUresult result = CUDA_SUCCESS;

	become_two(give_and_keep);
	start_cuda();
	for (int i = 0; i < 4; i++)
		CHECK(take(&piece[i]));
	look("shared");
	kill(other, SIGKILL);
	CHECK(waitpid(other, NULL, 0) == other);
	look("killed");
	/* Whatever has drained since: of 100 MiB 80 are in use. */
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, create(&own, 2 * PIECE));
	look("drained");
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, create(&own, 2 * PIECE));
	for (int i = 0; i < 4; i++)
		drop(&piece[i], PIECE);
	result = create(&own, 5 * PIECE);
	CHECK(result == CUDA_SUCCESS);
	OK(cuMemRelease(own.handle));
	look("none");
}

static void killed_ipc(void)
{
	CUdeviceptr address[4];
	struct piece own;

	become_two(give_and_free);
	start_cuda();
	for (int i = 0; i < 4; i++)
		CHECK(open_next(&address[i], '!'));
	kill(other, SIGKILL);
	CHECK(waitpid(other, NULL, 0) == other);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, create(&own, 2 * PIECE));
	look("drained");
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, create(&own, 2 * PIECE));
	for (int i = 0; i < 4; i++)
		OK(cuIpcCloseMemHandle(address[i]));
	OK(create(&own, 5 * PIECE));
	OK(cuMemRelease(own.handle));
	look("none");
}

/* --- over and over --- */

static void rounds(void)
{
	struct piece piece, again;

	start_cuda();
	for (int i = 0; i < ROUNDS; i++) {
		OK(create(&piece, 2 * MIB));
		int fd = export_of(&piece);
		OK(import(&again, fd));
		OK(map(&again, 2 * MIB));
		unmap(&again, 2 * MIB);
		OK(cuMemRelease(again.handle));
		/* The last that is left of it is by turns the handle and the descriptor. */
		if (i % 2)
			close(fd);
		OK(cuMemRelease(piece.handle));
		if (!(i % 2))
			close(fd);
	}
	OK(create(&piece, 2 * MIB)); /* the software GPU sees that the last was closed */
	OK(cuMemRelease(piece.handle));
	look("none");
}

static void give_over_and_over(void)
{
	struct piece piece;
	char how;

	while ((how = await())) {
		if (how == 's') {
			see_closed();
			continue;
		}
		OK(create(&piece, PIECE));
		int fd = export_of(&piece);
		send_descriptor(fd);
		if (how == 'h')
			OK(cuMemRelease(piece.handle));
		close(fd);
		CHECK(await() == 'i');
		if (how != 'h')
			OK(cuMemRelease(piece.handle));
		tell('r');
	}
}

static void rounds_of_two(void)
{
	struct piece piece;

	become_two(give_over_and_over);
	start_cuda();
	for (int i = 0; i < ROUNDS_OF_TWO; i++) {
		tell(i % 2 ? 'h' : 'l');
		int fd = receive_descriptor();
		CHECK(fd >= 0);
		OK(import(&piece, fd));
		if (i % 3)
			close(fd);
		OK(map(&piece, PIECE));
		if (i % 4 < 2)
			drop(&piece, PIECE);
		tell('i');
		CHECK(await() == 'r');
		if (i % 4 >= 2)
			drop(&piece, PIECE);
		if (i % 3 == 0)
			close(fd);
	}
	have_it_seen();
	look("none");
	end_other();
}

/* --- as much as there may be of what cannot leave the device --- */

/* Made beyond the limit, exported when there is room. */
static void late(void)
{
	struct piece piece[6];

	start_cuda();
	for (int i = 0; i < 5; i++)
		OK(create(&piece[i], PIECE));
	OK(cuMemCreate(&piece[5].handle, PIECE, &exportable, 0));
	OK(cuMemRelease(piece[0].handle));
	close(export_of(&piece[5]));
	OK(map(&piece[5], PIECE));
	OK(cuMemsetD8_v2(piece[5].address, 7, PIECE));
	OK(cuCtxSynchronize());
	printf("late\n");
	look("full");
	drop(&piece[5], PIECE);
	for (int i = 1; i < 5; i++)
		OK(cuMemRelease(piece[i].handle));
}

static unsigned char byte_of(const struct piece *piece)
{
	unsigned char byte = 0;

	OK(cuMemcpyDtoH_v2(&byte, piece->address + PIECE - 1, 1));
	return byte;
}

static void fill(const struct piece *piece, unsigned char byte)
{
	OK(cuMemsetD8_v2(piece->address, byte, PIECE));
}

/*
 * The other orders: mapped and written on the host before it is exported, and exported while it is
 * mapped no longer. The bytes are kept.
 */
static void orders(void)
{
	struct piece piece[7];

	start_cuda();
	for (int i = 0; i < 5; i++)
		OK(create(&piece[i], PIECE));
	for (int i = 5; i < 7; i++) {
		OK(cuMemCreate(&piece[i].handle, PIECE, &exportable, 0));
		OK(map(&piece[i], PIECE));
		fill(&piece[i], (unsigned char)i);
	}
	unmap(&piece[6], PIECE);
	OK(cuMemRelease(piece[0].handle));
	close(export_of(&piece[5]));
	CHECK(byte_of(&piece[5]) == 5);
	OK(cuMemRelease(piece[1].handle));
	close(export_of(&piece[6]));
	OK(map(&piece[6], PIECE));
	CHECK(byte_of(&piece[6]) == 6);
	printf("orders\n");
	look("full");
	drop(&piece[5], PIECE);
	drop(&piece[6], PIECE);
	for (int i = 2; i < 5; i++)
		OK(cuMemRelease(piece[i].handle));
}

/*
 * Mapped twice: it leaves the device and is exported, with the same bytes at both addresses. The
 * first is mapped with rights before it leaves, the second is on the host from the beginning and
 * has rights after its export alone.
 */
static void twice(void)
{
	struct piece piece[5], at[2][2];

	start_cuda();
	for (int i = 0; i < 2; i++) {
		OK(cuMemCreate(&at[i][0].handle, PIECE, &exportable, 0));
		at[i][1] = at[i][0];
		OK(map(&at[i][0], PIECE));
		fill(&at[i][0], (unsigned char)(7 + i));
		OK(map(&at[i][1], PIECE));
		for (int k = 0; i == 0 && k < 5; k++)
			OK(create(&piece[k], PIECE));
	}
	fill(&at[0][1], 9);
	CHECK(byte_of(&at[0][0]) == 9);
	for (int k = 0; k < 2; k++)
		allow(&at[1][k], PIECE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	for (int i = 0; i < 2; i++) {
		OK(cuMemRelease(piece[i].handle));
		close(export_of(&at[i][0]));
	}
	for (int k = 0; k < 2; k++)
		allow(&at[1][k], PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CHECK(byte_of(&at[0][0]) == 9 && byte_of(&at[1][0]) == 8);
	for (int i = 0; i < 2; i++) {
		fill(&at[i][0], (unsigned char)(3 + i));
		CHECK(byte_of(&at[i][1]) == 3 + i);
	}
	printf("twice\n");
	look("full");
	for (int i = 0; i < 2; i++) {
		unmap(&at[i][1], PIECE);
		drop(&at[i][0], PIECE);
	}
	for (int i = 2; i < 5; i++)
		OK(cuMemRelease(piece[i].handle));
}

enum { SIX = 6 };

static void fill_create(void)
{
	struct piece piece;
	int count = 0;

	start_cuda();
	while (count < SIX && create(&piece, PIECE) == CUDA_SUCCESS) {
		export_of(&piece); /* before that it moves */
		count++;
	}
	if (count < SIX)
		EXPECT(CUDA_ERROR_OUT_OF_MEMORY, create(&piece, PIECE));
	printf("had %d\n", count);
}

static void fill_ipc(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;
	int count = 0;

	start_cuda();
	do {
		OK(cuMemAlloc_v2(&address, PIECE));
	} while (cuIpcGetMemHandle(&handle, address) == CUDA_SUCCESS && ++count < SIX);
	if (count < SIX)
		EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuIpcGetMemHandle(&handle, address));
	printf("had %d\n", count);
}

static void fill_pool(void)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUdeviceptr address;
	CUmemoryPool pool;
	int count = 0, fd;

	start_cuda();
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                    0));
	while (count < SIX && cuMemAllocFromPoolAsync(&address, PIECE, pool, NULL) == CUDA_SUCCESS)
		count++;
	if (count < SIX)
		EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
		       cuMemAllocFromPoolAsync(&address, PIECE, pool, NULL));
	printf("had %d\n", count);
}

/* --- of another job, or of none --- */

static int socket_at(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	CHECK(strlen(path) < sizeof(address->sun_path));
	memcpy(address->sun_path, path, strlen(path));
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static void give(const char *path, int pieces)
{
	struct sockaddr_un address;
	int listener = socket_at(path, &address);
	struct piece piece;

	start_cuda();
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(listen(listener, 1) == 0);
	peer = accept(listener, NULL, NULL);
	CHECK(peer >= 0);
	for (int i = 0; i < pieces; i++) {
		OK(create(&piece, PIECE));
		int fd = export_of(&piece);
		send_descriptor(fd);
		close(fd);
	}
	await();
}

static void take_all(const char *path, int pieces)
{
	struct sockaddr_un address;
	struct piece piece[MOST] = {0};
	CUresult result = CUDA_SUCCESS;
	int count = 0;

	peer = socket_at(path, &address);
	start_cuda();
	CHECK(connect(peer, (struct sockaddr *)&address, sizeof(address)) == 0);
	for (int i = 0; i < pieces; i++) {
		int fd = receive_descriptor();

		CHECK(fd >= 0);
		result = import(&piece[count], fd);
		close(fd);
		if (result == CUDA_SUCCESS) {
			result = map(&piece[count], PIECE);
			if (result != CUDA_SUCCESS)
				OK(cuMemRelease(piece[count].handle));
		}
		if (result != CUDA_SUCCESS)
			EXPECT(CUDA_ERROR_OUT_OF_MEMORY, result);
		else
			count++;
	}
	printf("took %d\n", count);
	look("full");
	while (count)
		drop(&piece[--count], PIECE);
	look("none");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
	    {"imported", imported},
	    {"descriptor", descriptor},
	    {"ipc", ipc},
	    {"killed", killed},
	    {"killed_ipc", killed_ipc},
	    {"rounds", rounds},
	    {"rounds_of_two", rounds_of_two},
	    {"late", late},
	    {"orders", orders},
	    {"twice", twice},
	    {"fill_create", fill_create},
	    {"fill_ipc", fill_ipc},
	    {"fill_pool", fill_pool},
	};

	alarm(250);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && strcmp(argv[1], "give") == 0) {
		give(argv[2], atoi(argv[3]));
		return 0;
	}
	if (argc == 4 && strcmp(argv[1], "take") == 0) {
		take_all(argv[2], atoi(argv[3]));
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}
