/* SPDX-License-Identifier: MIT */
/*
 * guest STEP...: a program that harms itself around its use of the driver, as programs do. For
 * example, it takes or closes every descriptor, or runs out of memory. A line per step that has
 * something to say.
 *
 *   version init context     the first calls of the driver
 *   alloc:MIB:COUNT free     blocks of device memory, until COUNT or one is refused; all given back
 *   total:BYTES              until the limit is BYTES
 *   nofile:N as:MIB          limits: descriptors; address space above what is in use now
 *   take release             every descriptor that can be had; given back
 *   close                    everything above stderr, as daemons do
 *   own:inotify own:other    inotify descriptors, or files and pipes, of its own in place of what
 *                            was closed
 *   check                    that nobody read, wrote or closed any of them
 *   fds threads files        how many descriptors and threads there are, and mappings of Spillway's
 *                            files
 *   loaded                   whether the process is set-uid, and whether the shim is in it
 *   wait:PATH                makes the folder PATH, goes on when a line comes on stdin
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 256, OWN = 24, BLOCKS = 1 << 20 };

static int taken[4 * DESCRIPTORS], taken_count;
static CUdeviceptr blocks[BLOCKS];
static int block_count;
static char folder[512];

/* The descriptors that the program has in place of those it closed. */
static struct own {
	int fd, other; /* the end that is read, and the pipe's other one */
	struct stat status;
	enum { OWN_FILE, OWN_PIPE, OWN_INOTIFY } kind;
} own[OWN];

static void answer(const char *what, CUresult result)
{
	printf("%s=%d\n", what, (int)result);
}

static void step_version(void)
{
	int version = 0;

	answer("version", cuDriverGetVersion(&version));
}

static void step_context(void)
{
	CUcontext context;
	CUdevice device;
	CUresult result = cuDeviceGet(&device, 0);

	if (result == CUDA_SUCCESS)
		result = cuDevicePrimaryCtxRetain(&context, device);
	if (result == CUDA_SUCCESS)
		result = cuCtxSetCurrent(context);
	answer("context", result);
}

static void step_alloc(const char *argument)
{
	size_t size = strtoull(argument, NULL, 10) << 20, free_bytes = 0, total = 0;
	int most = atoi(strchr(argument, ':') + 1), start = block_count;
	CUresult result = CUDA_SUCCESS;

	errno = 4711;
	while (block_count < BLOCKS && block_count - start < most &&
	       (result = cuMemAlloc_v2(&blocks[block_count], size ? size : 512)) == CUDA_SUCCESS)
		block_count++;
	cuMemGetInfo_v2(&free_bytes, &total);
	printf("alloc=%d result=%d total=%zu errno=%s\n", block_count - start, (int)result, total,
	       errno == 4711 ? "kept" : "changed");
}

static void step_free(void)
{
	CUresult worst = CUDA_SUCCESS;

	while (block_count) {
		CUresult result = cuMemFree_v2(blocks[--block_count]);

		worst = result ? result : worst;
	}
	answer("free", worst);
}

/* The limit as the program sees it; what the helper thread does takes a moment. */
static void step_total(const char *argument)
{
	size_t free_bytes = 0, total = 0, expected = strtoull(argument, NULL, 10);

	for (int i = 0; i < 400 && total != expected; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		cuMemGetInfo_v2(&free_bytes, &total);
	}
	printf("total=%zu\n", total);
}

static void step_nofile(const char *argument)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = strtoull(argument, NULL, 10);
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void step_as(const char *argument)
{
	struct rlimit limit = {.rlim_max = RLIM_INFINITY};
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%lu", &pages) != 1)
		exit(2);
	fclose(file);
	limit.rlim_cur =
	    pages * (unsigned long)sysconf(_SC_PAGESIZE) + (strtoull(argument, NULL, 10) << 20);
	setrlimit(RLIMIT_AS, &limit);
}

static void step_take(void)
{
	int fd;

	while (taken_count < 4 * DESCRIPTORS && (fd = open("/dev/null", O_RDONLY)) >= 0)
		taken[taken_count++] = fd;
}

static void step_release(void)
{
	while (taken_count)
		close(taken[--taken_count]);
}

static void step_close(void)
{
	for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
		syscall(SYS_close, fd); /* unseen by a sanitizer: whose they are is the question */
}

/* Each with something in it that only the program may read. */
static void make_own(struct own *o, int i)
{
	char path[sizeof(folder) + 16];
	int ends[2];

	snprintf(path, sizeof(path), "%s/%d", folder, i);
	if (o->kind == OWN_PIPE && pipe2(ends, O_NONBLOCK) == 0) {
		o->fd = ends[0];
		o->other = ends[1];
		if (write(ends[1], "mine", 4) != 4)
			exit(2);
	} else if (o->kind == OWN_INOTIFY) {
		o->fd = inotify_init1(IN_NONBLOCK);
		inotify_add_watch(o->fd, folder, IN_CREATE);
	} else {
		o->fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
	}
	if (fstat(o->fd, &o->status) != 0)
		exit(2);
}

/*
 * Makes the first one again until it has descriptor 3. While Spillway's helper reads a file that
 * one is the helper's. A descriptor that Spillway keeps there never goes.
 */
static void make_first(struct own *o)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	make_own(o, 0);
	for (int tries = 0; o->fd > 3 && tries < 30000; tries++) {
		close(o->fd);
		if (o->kind == OWN_PIPE)
			close(o->other);
		nanosleep(&moment, NULL);
		make_own(o, 0);
	}
}

static void step_own(const char *kind)
{
	char path[sizeof(folder) + 16];

	snprintf(folder, sizeof(folder), "%s/guest.XXXXXX", getenv("TMPDIR"));
	if (!mkdtemp(folder))
		exit(2);
	for (int i = 0; i < OWN; i++) {
		own[i].kind = strcmp(kind, "inotify") == 0 ? OWN_INOTIFY
		              : i % 2                      ? OWN_PIPE
		                                           : OWN_FILE;
		if (i == 0)
			make_first(&own[i]);
		else
			make_own(&own[i], i);
	}
	snprintf(path, sizeof(path), "%s/event", folder);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	printf("own: from descriptor %d\n", own[0].fd);
}

static int is_untouched(const struct own *o)
{
	struct stat now;
	char bytes[4096];
	ssize_t length;

	if (fstat(o->fd, &now) != 0 || now.st_ino != o->status.st_ino ||
	    now.st_dev != o->status.st_dev || now.st_size != o->status.st_size)
		return 0;
	if (o->kind == OWN_FILE)
		return 1;
	length = read(o->fd, bytes, sizeof(bytes));
	if (o->kind == OWN_PIPE)
		return length == 4;
	/* One watch, and the event is there. */
	return length > 0 && inotify_rm_watch(o->fd, 1) == 0 && inotify_rm_watch(o->fd, 2) != 0;
}

static void step_check(void)
{
	char path[sizeof(folder) + 16];
	int bad = 0;

	for (int i = 0; i < OWN; i++) {
		if (is_untouched(&own[i]))
			continue;
		printf("check: descriptor %d (kind %d) is not what it was\n", own[i].fd,
		       (int)own[i].kind);
		bad++;
	}
	for (int i = 0; i < OWN; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/event", folder);
	unlink(path);
	rmdir(folder);
	printf("check: bad=%d\n", bad);
}

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count - 2;
}

static int mappings(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found += strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

static void step_files(void)
{
	printf("files=%d\n", mappings(".segment") + mappings(".unfinished"));
}

static void step_loaded(void)
{
	printf("secure=%d shim=%d\n", getauxval(AT_SECURE) != 0, mappings("libspillway.so") > 0);
}

static void step_wait(const char *file)
{
	char line[16];

	fflush(stdout);
	setvbuf(stdin, NULL, _IONBF, 0); /* others may wait for lines of the same pipe */
	/* A descriptor may not be had. */
	if (mkdir(file, 0700) != 0)
		exit(2);
	if (!fgets(line, sizeof(line), stdin))
		exit(2);
}

static const char *after(const char *step, const char *name)
{
	size_t length = strlen(name);

	return strncmp(step, name, length) == 0 && step[length] == ':' ? step + length + 1 : NULL;
}

static void take_step(const char *step)
{
	static const struct {
		const char *name;
		void (*plain)(void);
		void (*with)(const char *argument);
	} steps[] = {
	    {"version", step_version, NULL}, {"context", step_context, NULL},
	    {"alloc", NULL, step_alloc},     {"free", step_free, NULL},
	    {"nofile", NULL, step_nofile},   {"as", NULL, step_as},
	    {"take", step_take, NULL},       {"release", step_release, NULL},
	    {"close", step_close, NULL},     {"own", NULL, step_own},
	    {"loaded", step_loaded, NULL},   {"check", step_check, NULL},
	    {"files", step_files, NULL},     {"wait", NULL, step_wait},
	    {"total", NULL, step_total},
	};

	if (strcmp(step, "init") == 0) {
		answer("init", cuInit(0));
		return;
	}
	if (strcmp(step, "fds") == 0) {
		printf("fds=%d\n", entries("/proc/self/fd") - 1);
		return;
	}
	if (strcmp(step, "threads") == 0) {
		printf("threads=%d\n", entries("/proc/self/task"));
		return;
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		const char *argument = after(step, steps[i].name);

		if (argument && steps[i].with) {
			steps[i].with(argument);
			return;
		}
		if (steps[i].plain && strcmp(step, steps[i].name) == 0) {
			steps[i].plain();
			return;
		}
	}
	fprintf(stderr, "guest: %s: no such step\n", step);
	exit(2);
}

int main(int argc, char **argv)
{
	static char buffer[BUFSIZ];

	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	for (int i = 1; i < argc; i++)
		take_step(argv[i]);
	printf("done\n");
	return 0;
}
