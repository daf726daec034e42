/* SPDX-License-Identifier: MIT */
/*
 * reentry [EARLY]: calls the driver's composed functions (tiny_driver.c) and prints the driver's
 * counts; EARLY is a file that is opened before the driver is asked for. It takes 12 MiB, 4 more
 * for 4 that it gives back, and launches ten times.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void *library;

static void *find(const char *symbol)
{
	void *found = dlsym(library, symbol);

	if (!found)
		printf("%s: %s\n", symbol, dlerror());
	return found;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"init",   "context", "alloc",      "free",
	                                    "module", "launch",  "constructor"};
	int (*init)(unsigned int), (*create)(void **, void *, unsigned int, int),
	    (*count)(const char *);
	int (*allocate)(uint64_t *, size_t *, size_t, size_t, unsigned int),
	    (*release)(uint64_t, void *);
	int (*load)(void **, const char *), (*launch)(void *, int, int), (*news)(void);
	int (*get)(const char *, void **, int, uint64_t, int *);
	int (*newer)(uint64_t *, size_t, unsigned int);
	int results[7] = {0}, status = -1;
	uint64_t p[3];
	size_t pitch;
	void *object;

	if (argc > 1 && !dlopen(argv[1], RTLD_NOW)) {
		printf("%s\n", dlerror());
		return 1;
	}
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library || !(*(void **)&init = find("cuInit")) ||
	    !(*(void **)&create = find("cuCtxCreate_v4")) ||
	    !(*(void **)&allocate = find("cuMemAllocPitch_v2")) ||
	    !(*(void **)&release = find("cuMemFreeAsync")) ||
	    !(*(void **)&load = find("cuModuleLoad")) ||
	    !(*(void **)&launch = find("cuLaunchGrid")) ||
	    !(*(void **)&get = find("cuGetProcAddress_v2")))
		return 1;
	results[0] = init(0);
	results[1] = create(&object, NULL, 0, 0);
	for (int i = 0; i < 3; i++)
		results[2] |= allocate(&p[i], &pitch, 1 << 20, 4, 4);
	results[3] = release(p[1], NULL);
	results[2] |= allocate(&p[1], &pitch, 1 << 20, 4, 4); /* where the other was */
	results[4] = load(&object, "a module");
	for (int i = 0; i < 10; i++)
		results[5] |= launch(&object, 1, 1);
	for (int i = 0; i < 3; i++)
		results[6] |= get("cuTinyCount", (void **)&count, 14000, 0, &status) |
		              get("cuTinyNews", (void **)&news, 14000, 0, &status) |
		              get("cuMemAlloc", (void **)&newer, 14000, 0, &status);
	if (results[6] || status || !count || !news || !newer || newer(p, 1, 0) || !newer(p, 1, 1))
		return 1;
	for (int i = 0; i < 7; i++)
		printf("%s%s %d/%d", i ? ", " : "", names[i], results[i], count(names[i]));
	printf(", news %d\n", news());
	return 0;
}
