/* SPDX-License-Identifier: MIT */
/*
 * runtimes [--cudart LIBRARY] LIBRARY...: loads runtime libraries of several CUDA versions
 * (runtime.c) and works through all of them in turns. One allocates memory that another frees. Each
 * launches and captures in its own context. With --cudart a libcudart takes part in the allocating
 * and freeing. While a context of each holds 4 MiB it waits for a line of input; then it destroys
 * the contexts. Prints "ok" and its counts.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "tests/e2e/runtime.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8, ROUNDS = 5, MIB = 1 << 20 };

static const char code[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
                           ".visible .entry count(.param .u64 where)\n{\n"
                           ".reg .u64 %rd<2>;\n.reg .u32 %r<2>;\n"
                           "ld.param.u64 %rd1, [where];\n"
                           "atom.global.add.u32 %r1, [%rd1], 1;\nret;\n}\n";

static const struct runtime *load(const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const struct runtime *found = library ? dlsym(library, "runtime") : NULL;

	if (!found)
		printf("%s\n", dlerror());
	return found;
}

static int (*cuda_malloc)(void **, size_t);
static int (*cuda_free)(void *);

static bool load_cudart(const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("%s\n", dlerror());
		return false;
	}
	*(void **)&cuda_malloc = dlsym(library, "cudaMalloc");
	*(void **)&cuda_free = dlsym(library, "cudaFree");
	return cuda_malloc && cuda_free;
}

/* In the current context, as libcudart does. */
static void share_with_cudart(const struct runtime *one, const struct runtime *other)
{
	void *p = NULL;
	CUdeviceptr q = one->allocate(2 * MIB);
	int error = cuda_malloc(&p, 3 * MIB);

	if (!error)
		error = cuda_free((void *)q);
	if (error)
		printf("libcudart: %d\n", error);
	other->give_back((CUdeviceptr)p);
}

int main(int argc, char **argv)
{
	const struct runtime *runtimes[MOST];
	struct work work[MOST];
	CUdeviceptr counter[MOST];
	int n = argc - 1, kept = 0;
	unsigned int counted = 0;

	if (n > 2 && strcmp(argv[1], "--cudart") == 0) {
		if (!load_cudart(argv[2]))
			return 1;
		n -= 2;
		argv += 2;
	}
	if (n < 1 || n > MOST)
		return 2;
	for (int i = 0; i < n; i++) {
		if (!(runtimes[i] = load(argv[i + 1])))
			return 1;
		work[i].code = code;
		runtimes[i]->start(&work[i]);
		counter[i] = runtimes[i]->make_counter();
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < n; i++) {
			const struct runtime *mine = runtimes[i], *other = runtimes[(i + 1) % n];
			CUdeviceptr p, q;

			other->use(&work[i]);
			p = mine->allocate(3 * MIB);
			q = mine->allocate_async(2 * MIB);
			mine->count_three(&work[i], counter[i]);
			other->give_back(p);
			other->give_back_async(q);
			if (cuda_malloc)
				share_with_cudart(mine, other);
		}
	}
	for (int i = 0; i < n; i++) {
		runtimes[i]->use(&work[i]);
		counted += runtimes[i]->value(counter[i]);
		kept += runtimes[i]->allocate(4 * MIB) != 0;
	}
	printf("counted %u\n", counted);
	fflush(stdout);
	getchar();
	for (int i = 0; i < n; i++)
		runtimes[(i + 1) % n]->stop(&work[i]);
	printf("ok %d\n", kept);
	return 0;
}
