/* SPDX-License-Identifier: MIT */
/* Tests of the whole surface: every name is exported, and none crashes on nothing. */
#include <dlfcn.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/entry_points.h"

static const struct entry_point table[] = {
#define X(symbol, name, version, per_thread) {#symbol, name, version, per_thread, NULL},
#include "tests/softgpu/entry_points.def"
#undef X
    {0},
};

static void exports(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CHECK(driver);
	for (const struct entry_point *entry = table; entry->symbol; entry++) {
		void *function = NULL;
		void *exported = dlsym(driver, entry->symbol);
		CHECK(exported);
		if (!*entry->name)
			continue;
		OK(cuGetProcAddress(entry->name, &function, entry->version,
		                    entry->per_thread ? 2 : 0));
		if (function != exported) {
			fprintf(stderr, "%s is not found as %s\n", entry->symbol, entry->name);
			exit(1);
		}
	}
}

/* More than any of them has; what is not used does no harm in these calling conventions. */
typedef int (*any_function)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                            void *, void *, void *);

static void call_all(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	for (const struct entry_point *entry = table; entry->symbol; entry++) {
		any_function function;
		void *address = dlsym(driver, entry->symbol);
		memcpy(&function, &address, sizeof(function));
		int result = function(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
		                      NULL, NULL);
		const char *name;
		if (cuGetErrorName((CUresult)result, &name) != CUDA_SUCCESS) {
			fprintf(stderr, "%s answers %d\n", entry->symbol, result);
			exit(1);
		}
	}
}

static void nothing_without_init(void)
{
	int version;
	OK(cuDriverGetVersion(&version));
	call_all(); /* cuInit is among them, in the middle */
}

static void nothing_with_context(void)
{
	start();
	call_all();
}

int main(void)
{
	int failed = 0;
	failed += RUN(exports, "SOFTGPU_DRIVER_VERSION=13050");
	failed += RUN(nothing_without_init, "SOFTGPU_QUIET=1");
	failed += RUN(nothing_with_context, "SOFTGPU_QUIET=1");
	return failed != 0;
}
