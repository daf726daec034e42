/* SPDX-License-Identifier: MIT */
/*
 * entry NAME...: opens the driver under each name as programs do and says which library answers:
 * "NAME: shim" or "NAME: driver", or "NAME: none" when there is none and dlerror() says so. The
 * NAMEs are opened one after the other, and stay open. A NAME may be prefixed by how it is opened:
 * noload:, deepbind:, global:, nomode: (an invalid mode), base: and new: (dlmopen into the first or
 * into a new namespace); or be "self" for dlopen(NULL), "default" for RTLD_DEFAULT, "next" for
 * RTLD_NEXT; or prefixed by fd: or memory:, for the descriptor of the file or of a copy of it in
 * memory, which is another file's afterwards. --symbol NAME..., --symbol-in FILE NAME...: the same
 * for the symbols of one library; NAME@VERSION is looked up by dlvsym. --gpa NAME@VERSION...: the
 * functions that cuGetProcAddress hands out. --spill NAME: allocates 16 MiB through that driver.
 * --init: the answer of cuInit, cuDriverGetVersion and cuDeviceGetCount.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *owner_of(void *address)
{
	char file[PATH_MAX];
	Dl_info info;

	if (!address)
		return "none";
	if (!dladdr(address, &info) || !realpath(info.dli_fname, file))
		return "unknown";
	return strstr(file, "libspillway") ? "shim" : "driver";
}

/* Returns a descriptor of a copy of the file, which has no name. */
static int copy_in_memory(int file)
{
	int copy = memfd_create("driver", 0);
	struct stat status;
	off_t from = 0;

	if (fstat(file, &status) != 0)
		return -1;
	while (from < status.st_size &&
	       sendfile(copy, file, &from, (size_t)(status.st_size - from)) > 0)
		;
	return copy;
}

/* Opens the file, or its copy, by a descriptor, whose number is a pipe's afterwards. */
static void *open_by_descriptor(const char *file, bool copied)
{
	int fd = open(file, O_RDONLY), ends[2];
	char path[64];
	void *library;

	if (copied)
		fd = copy_in_memory(fd);
	snprintf(path, sizeof(path), copied ? "/proc/self/fd/%d" : "/dev/fd/%d", fd);
	library = dlopen(path, RTLD_NOW);
	if (pipe(ends) == 0)
		dup2(ends[0], fd);
	return library;
}

static void *open_driver(const char *name)
{
	static const struct {
		const char *prefix;
		int mode;
		Lmid_t namespace;
	} ways[] = {
	    {"noload:", RTLD_NOW | RTLD_NOLOAD, LM_ID_BASE},
	    {"deepbind:", RTLD_NOW | RTLD_DEEPBIND, LM_ID_BASE},
	    {"global:", RTLD_LAZY | RTLD_GLOBAL, LM_ID_BASE},
	    {"nomode:", 0, LM_ID_BASE},
	    {"base:", RTLD_NOW, LM_ID_BASE},
	    {"new:", RTLD_NOW, LM_ID_NEWLM},
	};

	if (strncmp(name, "fd:", 3) == 0)
		return open_by_descriptor(name + 3, false);
	if (strncmp(name, "memory:", 7) == 0)
		return open_by_descriptor(name + 7, true);
	if (strcmp(name, "self") == 0)
		return dlopen(NULL, RTLD_NOW);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		size_t length = strlen(ways[i].prefix);

		if (strncmp(name, ways[i].prefix, length) != 0)
			continue;
		name += length;
		return strstr("base:new:", ways[i].prefix)
		           ? dlmopen(ways[i].namespace, name, ways[i].mode)
		           : dlopen(name, ways[i].mode);
	}
	return dlopen(name, RTLD_NOW);
}

static void print_way(const char *name)
{
	void *library = RTLD_DEFAULT, *init = NULL;
	const char *error;

	dlerror();
	if (strcmp(name, "next") == 0)
		init = dlsym(RTLD_NEXT, "cuInit");
	else if (strcmp(name, "default") == 0 || (library = open_driver(name)))
		init = dlsym(library, "cuInit");
	error = dlerror();
	/* glibc has nothing to say of a library that is not loaded. */
	printf("%s: %s%s\n", name, owner_of(init),
	       !init != !!error && strncmp(name, "noload:", 7) != 0 ? ", wrong dlerror" : "");
}

static void *find_symbol(void *library, const char *argument)
{
	const char *version = strchr(argument, '@');
	char name[128];

	if (!version)
		return dlsym(library, argument);
	snprintf(name, sizeof(name), "%.*s", (int)(version - argument), argument);
	return dlvsym(library, name, version + 1);
}

/* The second word of an argument "name@version" is the version asked for. */
static void print_proc_address(void *library, const char *argument)
{
	char name[128];
	int version = 12000;
	void *function = NULL;
	CUdriverProcAddressQueryResult status = 99;
	CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult result;

	snprintf(name, sizeof(name), "%s", argument);
	if (strchr(name, '@')) {
		version = atoi(strchr(name, '@') + 1);
		*strchr(name, '@') = '\0';
	}
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	result = get(name, &function, version, 0, &status);
	printf("%s: %s %d %d\n", argument, owner_of(function), (int)result, (int)status);
}

static void print_init(void *library)
{
	CUresult (*init)(unsigned int);
	CUresult (*version_of)(int *);
	CUresult (*count_of)(int *);
	int version = -1, count = -1, results[3];

	*(void **)&init = dlsym(library, "cuInit");
	*(void **)&version_of = dlsym(library, "cuDriverGetVersion");
	*(void **)&count_of = dlsym(library, "cuDeviceGetCount");
	results[0] = (int)init(0);
	results[1] = (int)version_of(&version);
	results[2] = (int)count_of(&count);
	printf("cuInit %d cuDriverGetVersion %d %d cuDeviceGetCount %d\n", results[0], results[1],
	       version, results[2]);
}

#define CALL(library, symbol, ...)                                  \
	do {                                                        \
		__typeof__(&(symbol)) call_;                        \
		*(void **)&call_ = dlsym(library, #symbol);         \
		if (!call_ || call_(__VA_ARGS__) != CUDA_SUCCESS) { \
			fprintf(stderr, "%s fails\n", #symbol);     \
			exit(1);                                    \
		}                                                   \
	} while (0)

static void spill(const char *name)
{
	void *library = open_driver(name);
	CUcontext context;
	CUdeviceptr at;

	CALL(library, cuInit, 0);
	CALL(library, cuDevicePrimaryCtxRetain, &context, 0);
	CALL(library, cuCtxSetCurrent, context);
	for (int i = 0; i < 4; i++)
		CALL(library, cuMemAlloc_v2, &at, 4 << 20);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--spill") == 0) {
		spill(argv[2]);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "--init") == 0) {
		print_init(dlopen("libcuda.so.1", RTLD_NOW));
		return 0;
	}
	if (argc > 2 && strncmp(argv[1], "--symbol", 8) == 0) {
		bool named = strcmp(argv[1], "--symbol-in") == 0;
		void *library = dlopen(named ? argv[2] : "libcuda.so.1", RTLD_NOW);

		for (int i = named ? 3 : 2; library && i < argc; i++) {
			void *address = find_symbol(library, argv[i]);
			const char *error = dlerror();

			printf("%s: %s%s\n", argv[i], owner_of(address), error ? ", said" : "");
		}
		return !library;
	}
	if (argc > 1 && strcmp(argv[1], "--gpa") == 0) {
		void *library = dlopen("libcuda.so.1", RTLD_NOW);

		for (int i = 2; library && i < argc; i++)
			print_proc_address(library, argv[i]);
		return !library;
	}
	for (int i = 1; i < argc; i++)
		print_way(argv[i]);
	return 0;
}
