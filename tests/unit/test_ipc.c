/* SPDX-License-Identifier: MIT */
/*
 * Memory that one process gives to another: the conversation between a server and a process that
 * opens it, with liars on both sides.
 */
#include "core/modules/ipc/server.c" /* ipc_serve(), too */

#include "tests/unit/devices.h"
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/module.h"
#include "tests/unit/fake_driver.h"

static const struct ipc_calls *calls(void)
{
	bool has_started = true;

	module_ipc.start(&has_started);
	return atomic_load(&ipc_calls);
}

#define MIB  ((uint64_t)1 << 20)
#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/* --- pieces: files that say which one they are --- */

struct piece {
	uint64_t index, size;
};

static int piece_file(uint64_t index, uint64_t size)
{
	struct piece piece = {index, size};
	int fd = memfd_create("piece", MFD_CLOEXEC);

	if (fd >= 0 && pwrite(fd, &piece, sizeof(piece), 0) != sizeof(piece)) {
		close(fd);
		return -1;
	}
	return fd;
}

static struct device_set devices;

/* The importer's driver: what is mapped must be pieces in their order, one behind the other. */
static struct {
	CUdeviceptr base;
	uint64_t mapped, pieces;
	struct piece piece[1024]; /* by handle */
	uint64_t imported, released;
	uint64_t wrong;
	uint64_t access; /* bytes */
} seen;

static CUresult import(CUmemGenericAllocationHandle *handle, void *file,
                       CUmemAllocationHandleType type)
{
	struct piece piece;

	if (pread((int)(intptr_t)file, &piece, sizeof(piece), 0) != sizeof(piece) ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	/* From here on the driver counts it as the importer's. */
	seen.wrong +=
	    device_charged(&devices.device[0], SEGMENT_ON_DEVICE) < seen.mapped + piece.size;
	seen.piece[seen.imported % 1024] = piece;
	*handle = seen.imported++ % 1024;
	return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	seen.released++;
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct piece piece = seen.piece[handle];

	if (piece.size != size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!seen.mapped)
		seen.base = address;
	seen.wrong +=
	    piece.index != seen.pieces || address != seen.base + seen.mapped || offset || flags;
	seen.mapped += size;
	seen.pieces++;
	return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	seen.wrong += address != seen.base || size != seen.mapped;
	seen.mapped = seen.pieces = seen.access = 0;
	return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                           size_t count)
{
	(void)access, (void)count;
	seen.wrong += address != seen.base || size != seen.mapped;
	seen.access = size;
	return CUDA_SUCCESS;
}

static CUresult properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	(void)handle;
	*prop = (CUmemAllocationProp){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

/* --- the exporter: a process of its own --- */

enum lie {
	NO_LIE,
	NO_PIECES,
	TOO_MANY_PIECES,
	OTHER_PIECES,
	EMPTY_PIECE,
	LARGE_PIECE,
	TOO_FEW_BYTES,
	TOO_MANY_BYTES,
	NO_END_OF_BYTES,
	OFFSET_OUTSIDE,
	NOT_ALL_OF_IT,
	WRONG_PIECE_SIZE,
	OTHER_TOTAL,
	LIES
};

static struct shared {
	struct wire_token token;
	uint32_t pieces;
	uint64_t piece_size;
	uint64_t offset;
	_Atomic enum lie lie;
	_Atomic unsigned int busy; /* answers to begin with that none is to be had */
	_Atomic unsigned int answers;
	_Atomic pid_t child;
} * shared;

static void tell_lie(struct wire_reply *reply)
{
	switch (atomic_load(&shared->lie)) {
	case NO_PIECES:
		reply->total = 0;
		break;
	case TOO_MANY_PIECES:
		reply->total = reply->count - 1;
		break;
	case OTHER_PIECES:
		reply->first++;
		break;
	case EMPTY_PIECE:
		reply->size[0] = 0;
		break;
	case LARGE_PIECE:
		reply->size[0] = UINT64_MAX - MIB;
		break;
	case TOO_FEW_BYTES:
		reply->bytes -= 2 * MIB;
		break;
	case TOO_MANY_BYTES:
		reply->bytes += 2 * MIB;
		break;
	case NO_END_OF_BYTES:
		reply->bytes = UINT64_MAX;
		break;
	case OFFSET_OUTSIDE:
		reply->offset = UINT64_MAX - 5;
		break;
	case NOT_ALL_OF_IT:
		reply->offset = reply->bytes - 1;
		break;
	case WRONG_PIECE_SIZE:
		reply->size[0] += MIB;
		reply->size[1] -= MIB;
		break;
	case OTHER_TOTAL:
		reply->total = reply->first + reply->count;
		break;
	default:
		break;
	}
}

static void given(const struct wire_request *request, struct wire_reply *reply,
                  int descriptors[WIRE_BATCH])
{
	uint32_t count = 0;

	shared->answers++;
	if (request->handle.number != 7) {
		reply->status = WIRE_GONE;
		return;
	}
	reply->status = WIRE_BUSY;
	if (shared->busy > 0) {
		shared->busy--;
		return;
	}
	reply->total = shared->pieces;
	reply->bytes = shared->pieces * shared->piece_size;
	reply->offset = shared->offset;
	reply->first = request->first;
	while (count < request->most && reply->first + count < reply->total) {
		int fd = piece_file(reply->first + count, shared->piece_size);

		if (fd < 0)
			break;
		descriptors[count] = fd;
		reply->size[count++] = shared->piece_size;
	}
	reply->count = count;
	if (count)
		reply->status = WIRE_OK;
	if (shared->lie)
		tell_lie(reply);
}

static void no_more_descriptors_than(rlim_t most)
{
	struct rlimit limit = {most, most};

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void serve_given(void *unused)
{
	char message[512];

	(void)unused;
	driver.cuThreadExchangeStreamCaptureMode = exchange_mode;
	no_more_descriptors_than(64);
	if (ipc_serve(given, &shared->token, message, sizeof(message)) != 0)
		_exit(1);
}

/* --- each test --- */

static struct context context;
static pid_t exporter;

static unsigned int descriptors_open(void)
{
	unsigned int count = 0;
	DIR *directory = opendir("/proc/self/fd");

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void setup(void)
{
	const struct config_gpu settings = {.memory = CONFIG_UNLIMITED, .share = 100000};

	state_directory_make();
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared->pieces = 3;
	shared->piece_size = 2 * MIB;
	exporter = child_start(serve_given, NULL);
	fake_driver_reset(256 * MIB);
	driver.cuMemImportFromShareableHandle = import;
	driver.cuMemRelease = release;
	driver.cuMemMap = map;
	driver.cuMemUnmap = unmap;
	driver.cuMemSetAccess = set_access;
	driver.cuMemGetAllocationPropertiesFromHandle = properties;
	driver.cuThreadExchangeStreamCaptureMode = exchange_mode;
	ck_assert_int_eq(device_set_fill(&devices, NULL, "test"), 0);
	device_set_start_contexts(&devices);
	device_apply(&devices.device[0], &settings);
	ck_assert(context_current(&context));
}

static void teardown(void)
{
	child_kill(exporter);
	state_directory_remove();
}

static CUipcMemHandle handle_of(uint64_t number)
{
	struct wire_handle ours = wire_handle_new();
	CUipcMemHandle handle;

	ours.pid = exporter;
	ours.token = shared->token;
	ours.number = number;
	ours.size = shared->pieces * shared->piece_size - shared->offset;
	memcpy(&handle, &ours, sizeof(handle));
	return handle;
}

static CUresult open_memory(CUdeviceptr *address)
{
	CUipcMemHandle handle = handle_of(7);

	return calls()->open(&context, &handle, LAZY, address);
}

static void expect_nothing_left(unsigned int descriptors)
{
	ck_assert_uint_eq(seen.mapped, 0);
	ck_assert_uint_eq(seen.wrong, 0);
	ck_assert_uint_eq(seen.released, seen.imported);
	ck_assert_int_eq(fake.count, 0);
	ck_assert_int_eq(fake.misuse, 0);
	ck_assert_uint_eq(descriptors_open(), descriptors);
}

static void expect_open_and_close(uint32_t pieces)
{
	unsigned int descriptors = descriptors_open();
	CUdeviceptr address = 0;
	CUresult result;

	ck_assert_int_eq(open_memory(&address), CUDA_SUCCESS);
	ck_assert_uint_eq(seen.pieces, pieces);
	ck_assert_uint_eq(seen.mapped, pieces * shared->piece_size);
	ck_assert_uint_eq(seen.access, seen.mapped);
	ck_assert_uint_eq(address, seen.base + shared->offset);
	ck_assert(calls()->close(address, NULL, &result));
	ck_assert_int_eq(result, CUDA_SUCCESS);
	expect_nothing_left(descriptors);
}

static void expect_refused(CUresult expected, const CUipcMemHandle *handle)
{
	unsigned int descriptors = descriptors_open();
	CUdeviceptr address = 42;

	ck_assert_int_eq(calls()->open(&context, handle, LAZY, &address), expected);
	ck_assert_uint_eq(address, 42);
	expect_nothing_left(descriptors);
}

START_TEST(many_pieces_come_in_batches)
{
	shared->pieces = 600;
	shared->offset = 4096;
	no_more_descriptors_than(64);
	expect_open_and_close(600);
	ck_assert_uint_eq(shared->answers, (600 + WIRE_BATCH - 1) / WIRE_BATCH);
}
END_TEST

START_TEST(what_finds_no_descriptor_is_asked_for_again)
{
	int last;

	shared->pieces = 100;
	last = dup(0);
	close(last);
	no_more_descriptors_than((rlim_t)last + 8);
	expect_open_and_close(100);
	ck_assert_uint_gt(shared->answers, 100 / WIRE_BATCH + 1);
}
END_TEST

START_TEST(a_busy_exporter_is_asked_again)
{
	shared->busy = 3;
	expect_open_and_close(3);
	ck_assert_uint_eq(shared->answers, 4);
}
END_TEST

START_TEST(opened_twice_is_one_address)
{
	struct ipc_place place;
	CUdeviceptr address, again, elsewhere;
	struct context other = context;
	CUipcMemHandle handle;
	CUresult result;

	shared->offset = 512;
	handle = handle_of(7);
	ck_assert_int_eq(open_memory(&address), CUDA_SUCCESS);
	ck_assert_int_eq(open_memory(&again), CUDA_SUCCESS);
	ck_assert_uint_eq(again, address);
	ck_assert_uint_eq(seen.pieces, 3);
	ck_assert(calls()->find(address + 100, &place));
	ck_assert_uint_eq(place.base, address);
	ck_assert_uint_eq(place.size, 6 * MIB - 512);
	ck_assert(!calls()->find(address - 1, &place));
	ck_assert(!calls()->find(address + place.size, &place));
	ck_assert(!calls()->close(address + 1, NULL, &result));
	ck_assert(calls()->close(address, NULL, &result));
	ck_assert_uint_eq(seen.pieces, 3);
	ck_assert(calls()->close(address, NULL, &result));
	ck_assert_uint_eq(seen.pieces, 0);
	ck_assert(!calls()->close(address, NULL, &result));
	ck_assert(!calls()->find(address, &place));
	/* Another context has it for itself. */
	other.handle = (CUcontext)(uintptr_t)0xbeef;
	ck_assert_int_eq(open_memory(&address), CUDA_SUCCESS);
	seen.pieces = seen.mapped = 0;
	ck_assert_int_eq(calls()->open(&other, &handle, LAZY, &elsewhere), CUDA_SUCCESS);
	ck_assert_uint_ne(elsewhere, address);
	module_ipc.left_context(other.handle);
	ck_assert(!calls()->find(elsewhere, &place));
	ck_assert(calls()->find(address, &place));
}
END_TEST

START_TEST(handles_are_judged)
{
	CUipcMemHandle good = handle_of(7), handle;
	struct wire_handle *ours = (struct wire_handle *)&handle;
	struct wire_token own;
	CUdeviceptr address;
	char message[512];

	ck_assert(calls()->is_ours(&good));
	memset(&handle, 1, sizeof(handle));
	ck_assert(!calls()->is_ours(&handle));
	ck_assert_int_eq(calls()->open(&context, &good, LAZY, NULL), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(calls()->open(&context, &good, 0, &address), CUDA_ERROR_INVALID_VALUE);
	handle = good;
	ours->size = 0;
	expect_refused(CUDA_ERROR_INVALID_VALUE, &handle);
	handle = good;
	ours->version++;
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	handle = good;
	ours->size += 1; /* more than there is */
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	handle = good;
	ours->number++; /* freed */
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	handle = good;
	ours->token.bytes[3]++; /* nobody's */
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	ck_assert_int_eq(ipc_serve(given, &own, message, sizeof(message)), 0);
	handle = good;
	ours->token = own;
	ck_assert_int_eq(calls()->open(&context, &handle, LAZY, &address),
	                 CUDA_ERROR_INVALID_CONTEXT);
	module_ipc.stop();
}
END_TEST

START_TEST(a_dead_exporter_is_noticed_at_once)
{
	CUipcMemHandle handle = handle_of(7);

	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
	exporter = child_start(serve_given, NULL); /* another, with another token */
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
}
END_TEST

START_TEST(a_stopped_exporter_is_not_waited_for_long)
{
	CUipcMemHandle handle = handle_of(7);

	kill(exporter, SIGSTOP);
	waitpid(exporter, NULL, WUNTRACED); /* not all its threads stop at once */
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	kill(exporter, SIGCONT);
	expect_open_and_close(3);
}
END_TEST

START_TEST(a_failing_driver_leaves_nothing)
{
	CUipcMemHandle handle = handle_of(7);

	fake.fail_at = 1; /* the reservation */
	expect_refused(CUDA_ERROR_OUT_OF_MEMORY, &handle);
	shared->lie = WRONG_PIECE_SIZE; /* refused at the first mapping */
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	shared->lie = NO_LIE;
	expect_open_and_close(3);
}
END_TEST

START_TEST(a_liar_is_not_believed)
{
	CUipcMemHandle handle;

	/* One that needs a second request, where answers must agree with the first. */
	shared->pieces = WIRE_BATCH + 3;
	handle = handle_of(7);
	shared->lie = _i;
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	shared->lie = NO_LIE;
	expect_open_and_close(WIRE_BATCH + 3);
}
END_TEST

/* --- who asks wrongly --- */

static int connect_to_exporter(void)
{
	int fd = wire_connect(&shared->token, wire_deadline(WIRE_PATIENCE_NS));

	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(strange_questions_get_no_answer)
{
	struct wire_request request = {.handle = wire_handle_new(), .most = WIRE_BATCH};
	static char noise[100000];
	int files[WIRE_BATCH];

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(i * 7);
	request.handle.token = shared->token;
	request.handle.number = 7;
	for (size_t i = 0; i < WIRE_BATCH; i++)
		files[i] = piece_file(i, 0);
	for (int i = 0; i < 6; i++) {
		struct wire_request bad = request;
		struct wire_reply reply;
		size_t length = sizeof(bad), count = 0;
		const void *message = &bad;
		int fd = connect_to_exporter(), got[WIRE_BATCH];

		if (i == 0)
			length = 5;
		if (i == 1)
			bad.most = WIRE_BATCH + 1;
		if (i == 2)
			bad.handle.magic[0]++;
		if (i == 3)
			bad.handle.token.bytes[0]++;
		if (i >= 4)
			message = noise;
		if (i == 5)
			length = sizeof(noise);
		wire_send(fd, message, length, files, i % 2 ? WIRE_BATCH : 0,
		          wire_deadline(WIRE_PATIENCE_NS));
		ck_assert_int_lt(wire_receive(fd, &reply, sizeof(reply), got, WIRE_BATCH, &count,
		                              wire_deadline(20 * WIRE_PATIENCE_NS)),
		                 0);
		close(fd);
	}
	for (size_t i = 0; i < WIRE_BATCH; i++)
		close(files[i]);
	ck_assert_uint_eq(shared->answers, 0);
	/* Nor does it keep the descriptors that came along: it may have 64. */
	expect_open_and_close(3);
}
END_TEST

START_TEST(who_asks_nothing_keeps_nobody_out)
{
	int silent[200];

	for (size_t i = 0; i < 60; i++)
		silent[i] = connect_to_exporter();
	expect_open_and_close(3);
	for (size_t i = 0; i < 60; i++)
		close(silent[i]);
	expect_open_and_close(3);
}
END_TEST

/* --- the socket's name --- */

START_TEST(a_long_name_of_the_directory_is_no_obstacle)
{
	char outer[512];

	strcpy(outer, state_directory);
	strcat(state_directory, "/");
	for (int i = 0; i < 12; i++)
		strcat(state_directory, "0123456789");
	setenv("SPILLWAY_STATE_DIR", state_directory, 1);
	child_kill(exporter);
	exporter = child_start(serve_given, NULL);
	expect_open_and_close(3);
	state_directory_remove();
	strcpy(state_directory, outer);
}
END_TEST

static unsigned int sockets(void)
{
	unsigned int count = 0;
	DIR *directory = opendir(state_directory);

	for (struct dirent *entry; (entry = readdir(directory));)
		count += strncmp(entry->d_name, "share-", 6) == 0;
	closedir(directory);
	return count;
}

static void expect_names_of_the_dead_removed(time_t changed)
{
	struct timespec times[2] = {{.tv_sec = changed}, {.tv_sec = changed}};
	DIR *directory;

	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
	exporter = child_start(serve_given, NULL);
	ck_assert_uint_eq(sockets(), 2); /* it may be one that is being made */
	directory = opendir(state_directory);
	for (struct dirent *entry; (entry = readdir(directory));)
		utimensat(dirfd(directory), entry->d_name, times, AT_SYMLINK_NOFOLLOW);
	closedir(directory);
	wire_sweep();
	ck_assert_uint_eq(sockets(), 1);
	expect_open_and_close(3);
}

START_TEST(names_of_the_dead_are_removed)
{
	expect_names_of_the_dead_removed(1000000000);
}
END_TEST

/* They were made before the clock was set back by years. */
START_TEST(names_of_the_future_are_removed)
{
	expect_names_of_the_dead_removed(4000000000);
}
END_TEST

/* --- what the exporter's program does --- */

static void serve_and_fork(void *unused)
{
	serve_given(unused);
	if (fork() == 0) {
		module_ipc.forked();
		shared->child = getpid();
		for (;;)
			pause();
	}
	while (!shared->child)
		pause_ms(1);
}

START_TEST(a_forked_child_does_not_answer_for_its_parent)
{
	CUipcMemHandle handle;
	int fd;

	child_kill(exporter);
	exporter = child_start(serve_and_fork, NULL);
	handle = handle_of(7);
	expect_open_and_close(3);
	child_kill(exporter);
	fd = wire_connect(&shared->token, wire_deadline(WIRE_PATIENCE_NS));
	ck_assert_int_eq(fd, -ECONNREFUSED);
	expect_refused(CUDA_ERROR_MAP_FAILED, &handle);
	kill(shared->child, SIGKILL);
	exporter = child_start(serve_given, NULL);
}
END_TEST

static void serve_and_close_all(void *unused)
{
	int pipes[2];

	serve_given(unused);
	for (int fd = 3; fd < 64; fd++) {
		if (fcntl(fd, F_GETFD) != -1 && wire_is_socket_of(fd, &shared->token))
			close(fd);
	}
	/* Its numbers are the program's now. */
	if (pipe(pipes) != 0)
		_exit(1);
}

START_TEST(a_program_that_closes_all_descriptors_is_served_on)
{
	CUdeviceptr address;
	CUresult result;
	int tries = 0;

	child_kill(exporter);
	exporter = child_start(serve_and_close_all, NULL);
	while (open_memory(&address) != CUDA_SUCCESS) {
		ck_assert_int_lt(tries++, 300);
		pause_ms(100);
	}
	ck_assert(calls()->close(address, NULL, &result));
	expect_open_and_close(3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ipc");
	TCase *one = tcase_create("ipc");

	tcase_set_timeout(one, 60);
	tcase_add_checked_fixture(one, setup, teardown);
	tcase_add_test(one, many_pieces_come_in_batches);
	tcase_add_test(one, what_finds_no_descriptor_is_asked_for_again);
	tcase_add_test(one, a_busy_exporter_is_asked_again);
	tcase_add_test(one, opened_twice_is_one_address);
	tcase_add_test(one, handles_are_judged);
	tcase_add_test(one, a_dead_exporter_is_noticed_at_once);
	tcase_add_test(one, a_stopped_exporter_is_not_waited_for_long);
	tcase_add_test(one, a_failing_driver_leaves_nothing);
	tcase_add_loop_test(one, a_liar_is_not_believed, NO_PIECES, LIES);
	tcase_add_test(one, strange_questions_get_no_answer);
	tcase_add_test(one, who_asks_nothing_keeps_nobody_out);
	tcase_add_test(one, a_long_name_of_the_directory_is_no_obstacle);
	tcase_add_test(one, names_of_the_dead_are_removed);
	tcase_add_test(one, names_of_the_future_are_removed);
	tcase_add_test(one, a_forked_child_does_not_answer_for_its_parent);
	tcase_add_test(one, a_program_that_closes_all_descriptors_is_served_on);
	suite_add_tcase(suite, one);
	return run_suite(suite);
}
