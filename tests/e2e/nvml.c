/* SPDX-License-Identifier: MIT */
/*
 * nvml [OPTIONS] [NAME...]: asks NVML for the memory of every device, as nvidia-smi does. Linked to
 * NVML when built with LINKED; else it opens each NAME (libnvidia-ml.so.1) and asks that. A NAME
 * may be prefixed by noload: or global:.
 *
 *   --watch SECONDS  asks the last NAME again and again until it is killed, or so long
 *   --cost           after it was asked once, reads what /proc/self/io counts for 1000 questions:
 *                    per question
 *   --cuda           initialises CUDA first
 *   --fork           a forked child asks, too
 *   --errors         what wrong parameters answer
 *   --inside         what NVML says when it asks itself (nvml_fake.c)
 *
 * Prints per NAME whose functions answer, or what dlerror() says; per device and query "INDEX
 * total=N used=N free=N".
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/softgpu/nvml/abi.h"

#define CALLS(X)                                                         \
	X(nvmlInit_v2, (void))                                           \
	X(nvmlDeviceGetCount_v2, (unsigned int *))                       \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *)) \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))       \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))

static struct {
#define X(name, parameters) nvmlReturn_t(*name) parameters;
	CALLS(X)
#undef X
} nvml;

static struct {
	bool fork, errors, inside, cost;
	int watch;
} options;

static const char *owner_of(void *address)
{
	char file[PATH_MAX];
	Dl_info info;

	if (!address)
		return "none";
	if (!dladdr(address, &info) || !realpath(info.dli_fname, file))
		return "unknown";
	return strstr(file, "libspillway") ? "shim" : "nvml";
}

#ifdef LINKED
#define X(name, parameters) nvmlReturn_t name parameters;
CALLS(X)
#undef X

static void *find(const char *name)
{
	(void)name;
#define X(function, parameters) nvml.function = function;
	CALLS(X)
#undef X
	return &nvml;
}
#else
static void *find(const char *name)
{
	int mode = RTLD_LAZY;
	void *handle;

	if (strncmp(name, "noload:", 7) == 0)
		mode |= RTLD_NOLOAD;
	if (strncmp(name, "global:", 7) == 0)
		mode |= RTLD_GLOBAL;
	handle = dlopen(mode == RTLD_LAZY ? name : name + 7, mode);
	if (!handle) {
		const char *error = dlerror();

		printf("%s: %s\n", name, error ? error : "none");
		return NULL;
	}
	if (dlerror())
		printf("%s: an error is left\n", name);
#define X(function, parameters) \
	nvml.function = (nvmlReturn_t(*) parameters)dlsym(handle, #function);
	CALLS(X)
#undef X
	return handle;
}
#endif

static void ask(void)
{
	unsigned int count = 0;

	nvml.nvmlInit_v2();
	nvml.nvmlDeviceGetCount_v2(&count);
	for (unsigned int i = 0; i < count; i++) {
		nvmlMemory_v2_t two = {.version = NVML_MEMORY_V2};
		nvmlMemory_t one;
		nvmlDevice_t device;

		nvml.nvmlDeviceGetHandleByIndex_v2(i, &device);
		if (nvml.nvmlDeviceGetMemoryInfo(device, &one) == NVML_SUCCESS)
			printf("%u total=%llu used=%llu free=%llu\n", i, one.total, one.used,
			       one.free);
		if (nvml.nvmlDeviceGetMemoryInfo_v2 &&
		    nvml.nvmlDeviceGetMemoryInfo_v2(device, &two) == NVML_SUCCESS)
			printf("%u total=%llu used=%llu free=%llu reserved=%llu%s\n", i, two.total,
			       two.used, two.free, two.reserved,
			       two.version == NVML_MEMORY_V2 ? "" : " version lost");
	}
	fflush(stdout);
}

/* Reads what the kernel has counted of this process: bytes read, and calls that read. */
static void count_io(unsigned long long *bytes, unsigned long long *calls)
{
	FILE *file = fopen("/proc/self/io", "re");

	*bytes = *calls = 0;
	if (!file || fscanf(file, "rchar: %llu wchar: %*u syscr: %llu", bytes, calls) != 2)
		printf("no /proc/self/io\n");
	if (file)
		fclose(file);
}

static void tell_cost(void)
{
	enum { QUESTIONS = 1000 };
	unsigned long long bytes[3], calls[3];
	nvmlMemory_t memory;
	nvmlDevice_t device;

	nvml.nvmlDeviceGetHandleByIndex_v2(0, &device);
	count_io(&bytes[0], &calls[0]);
	count_io(&bytes[1], &calls[1]); /* counting counts */
	for (int i = 0; i < QUESTIONS; i++)
		nvml.nvmlDeviceGetMemoryInfo(device, &memory);
	count_io(&bytes[2], &calls[2]);
	bytes[2] -= bytes[1] + (bytes[1] - bytes[0]);
	calls[2] -= calls[1] + (calls[1] - calls[0]);
	printf("cost: bytes=%llu reads=%llu.%02llu\n", bytes[2] / QUESTIONS, calls[2] / QUESTIONS,
	       calls[2] % QUESTIONS / 10);
	fflush(stdout);
}

/* As a program that uses both: in the shim CUDA is what makes it take part in a job. */
static void use_cuda(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	int (*init)(unsigned int) = driver ? (int (*)(unsigned int))dlsym(driver, "cuInit") : NULL;

	printf("cuInit %d\n", init ? init(0) : -1);
}

static void ask_wrongly(void)
{
	nvmlMemory_v2_t two = {.version = 1};
	nvmlDevice_t device;

	nvml.nvmlDeviceGetHandleByIndex_v2(0, &device);
	printf("errors: version %d,", nvml.nvmlDeviceGetMemoryInfo_v2(device, &two));
	printf(" no memory %d %d,", nvml.nvmlDeviceGetMemoryInfo(device, NULL),
	       nvml.nvmlDeviceGetMemoryInfo_v2(device, NULL));
	printf(" no device %d\n", nvml.nvmlDeviceGetMemoryInfo(NULL, &(nvmlMemory_t){0}));
}

static void ask_in_child(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		printf("child\n");
		ask();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void ask_inside(void *handle)
{
	unsigned long long (*inside)(void);

	*(void **)&inside = dlsym(handle, "fake_total");
	printf("inside: total=%llu\n", inside ? inside() : 0);
}

static void ask_all(const char *name)
{
	void *handle = find(name);

	if (!handle)
		return;
	printf("%s: nvmlInit_v2 %s, nvmlDeviceGetMemoryInfo %s, _v2 %s\n", name,
	       owner_of((void *)nvml.nvmlInit_v2), owner_of((void *)nvml.nvmlDeviceGetMemoryInfo),
	       owner_of((void *)nvml.nvmlDeviceGetMemoryInfo_v2));
	ask();
	if (options.cost)
		tell_cost();
	if (options.errors)
		ask_wrongly();
	if (options.fork)
		ask_in_child();
	if (options.inside)
		ask_inside(handle);
	/* 20 times a second */
	for (int i = 0; i < options.watch * 20; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		ask();
	}
}

int main(int argc, char **argv)
{
	int asked = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--fork") == 0)
			options.fork = true;
		else if (strcmp(argv[i], "--cost") == 0)
			options.cost = true;
		else if (strcmp(argv[i], "--cuda") == 0)
			use_cuda();
		else if (strcmp(argv[i], "--errors") == 0)
			options.errors = true;
		else if (strcmp(argv[i], "--inside") == 0)
			options.inside = true;
		else if (strcmp(argv[i], "--watch") == 0)
			options.watch = atoi(argv[++i]);
		else
			ask_all(argv[asked = i]);
	}
	if (!asked)
		ask_all("libnvidia-ml.so.1");
	return 0;
}
