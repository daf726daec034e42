/*
 * entry NAME...: opens the driver under each name as programs do and says which library answers:
 * "NAME: shim" or "NAME: driver" or "NAME: none". A NAME may be prefixed by flags: noload:, deepbind:,
 * or be "next" for RTLD_DEFAULT. --gpa: what cuGetProcAddress hands out for the names that follow.
 * --init: the answer of cuInit, cuDriverGetVersion and cuDeviceGetCount.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void *open_driver(const char *name)
{
	int mode = RTLD_NOW;

	if (strncmp(name, "noload:", 7) == 0)
		mode |= RTLD_NOLOAD, name += 7;
	else if (strncmp(name, "deepbind:", 9) == 0)
		mode |= RTLD_DEEPBIND, name += 9;
	return strcmp(name, "next") == 0 ? RTLD_DEFAULT : dlopen(name, mode);
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

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--init") == 0) {
		print_init(dlopen("libcuda.so.1", RTLD_NOW));
		return 0;
	}
	if (argc > 2 && strncmp(argv[1], "--symbol", 8) == 0) {
		bool named = strcmp(argv[1], "--symbol-in") == 0;
		void *library = dlopen(named ? argv[2] : "libcuda.so.1", RTLD_NOW);

		for (int i = named ? 3 : 2; library && i < argc; i++) {
			void *address = dlsym(library, argv[i]);
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
	for (int i = 1; i < argc; i++) {
		void *library = open_driver(argv[i]);
		void *init =
		    library || strcmp(argv[i], "next") == 0 ? dlsym(library, "cuInit") : NULL;

		printf("%s: %s\n", argv[i], owner_of(init));
	}
	return 0;
}
