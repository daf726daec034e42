#!/bin/sh
# SPDX-License-Identifier: MIT
# A program loads a plugin into a namespace of its own (dlmopen). The plugin has the driver for
# itself there, out of our reach, and works as without Spillway. So does the program, and its own
# calls are counted.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

cat >"$scratch/plugin.c" <<'C'
#include <stddef.h>
#include <stdint.h>
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuMemAlloc_v2(uint64_t *p, size_t size);
int cuTinyCount(const char *name);

int use(size_t size);
int use(size_t size)
{
	void *context;
	uint64_t p;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&p, size))
		return -1;
	return cuTinyCount("alloc");
}
C
cat >"$scratch/program.c" <<'C'
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*use)(size_t), (*init)(unsigned int), (*create)(void **, unsigned int, int);
	int (*allocate)(uint64_t *, size_t);
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
	void *plugin = argc > 1 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : NULL;
	uint64_t p;

	if (!cuda || !plugin || !(*(void **)&use = dlsym(plugin, "use"))) {
		printf("%s\n", dlerror());
		return 1;
	}
	*(void **)&init = dlsym(cuda, "cuInit");
	*(void **)&create = dlsym(cuda, "cuCtxCreate_v2");
	*(void **)&allocate = dlsym(cuda, "cuMemAlloc_v2");
	printf("plugin %d", use(4 << 20));
	printf(" program %d", init(0));
	printf(" %d", create(&context, 0, 0));
	printf(" %d", allocate(&p, 8 << 20));
	printf(" plugin %d\n", use(4 << 20));
	return dlclose(plugin);
}
C
build_c() { # build_c ARGUMENTS...
	# shellcheck disable=SC2086 # CC may hold several words
	${CC:-cc} -D_GNU_SOURCE -Wall -Werror "$@" || fail "not built: $*"
}
mkdir "$scratch/driver"
build_c -shared -fPIC -Wl,-Bsymbolic,-soname,libcuda.so.1 -o "$scratch/driver/libcuda.so.1" tests/e2e/tiny_driver.c -ldl
build_c -shared -fPIC -o "$scratch/plugin.so" "$scratch/plugin.c" -L"$scratch/driver" -l:libcuda.so.1
build_c ${SANITIZER:+"-fsanitize=$SANITIZER"} -o "$scratch/program" "$scratch/program.c" -ldl

LD_LIBRARY_PATH=$scratch/driver
export LD_LIBRARY_PATH
expected="plugin 1 program 0 0 0 plugin 2"
same "alone" "$expected" "$("$scratch/program" "$scratch/plugin.so")"
same "in a job" "$expected" "$("$spillway" run --quiet --name namespace --memory 64MiB "$scratch/program" "$scratch/plugin.so")"
has "books" "$("$spillway" stat namespace --json)" '"device_peak":8388608,'
