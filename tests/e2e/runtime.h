/* SPDX-License-Identifier: MIT */
/*
 * The work of a runtime library (runtime.c) for the program that loads several of them
 * (runtimes.c).
 */
#include <cuda.h>

/* One runtime's objects; `code` is the program's. */
struct work {
	const char *code;
	CUcontext context;
	CUmodule module;
	CUfunction function;
};

/* Each ends the program with a line where the driver refuses. The context is the current one. */
struct runtime {
	void (*start)(struct work *work); /* makes a context and leaves it current */
	CUdeviceptr (*make_counter)(void);
	CUdeviceptr (*allocate)(size_t size);
	CUdeviceptr (*allocate_async)(size_t size);
	void (*give_back)(CUdeviceptr p);
	void (*give_back_async)(CUdeviceptr p);
	void (*count_three)(const struct work *work,
	                    CUdeviceptr counter); /* by one launch and two of a graph */
	unsigned int (*value)(CUdeviceptr counter);
	void (*use)(const struct work *work);
	void (*stop)(const struct work *work);
};

extern const struct runtime runtime;
