/* SPDX-License-Identifier: MIT */
/*
 * Execute PTX on the CPU.
 *
 * module    parsed once from text; holds entry functions, device functions, globals, constants
 * function  one .entry, decoded once into an array of instructions
 * grid      one launch; a few threads of the host share its blocks, the warps of a block take turns
 * warp      32 lanes in lockstep under a mask; it is a struct with a program counter, never a
 *           native stack, so that switching warps is choosing another struct
 *
 * This room knows nothing of the driver API. Its caller gives it memory and a kernel to run.
 * Thread-safety: a loaded module is immutable; ptx_run() may be called from several threads. It may
 * start threads of its own, which end before it returns; host_access() is called on those too.
 */
#ifndef SOFTGPU_PTX_H
#define SOFTGPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;
struct ptx_function;

/*
 * Where device addresses are. An address inside [window_base, window_base + window_size) is device
 * virtual memory: its bytes are at address + alias_delta, mapped with the rights the driver gave
 * them (the application itself cannot touch the window: it is PROT_NONE there, as on hardware). Any
 * other global address is asked of host_access(): pinned and managed host memory is used in place.
 */
struct ptx_memory {
	uint64_t window_base;
	uint64_t window_size;
	ptrdiff_t alias_delta;
	bool (*host_access)(void *cookie, uint64_t address, size_t size, bool write);
	/* Called before an access to the window, if it is not NULL. */
	void (*window_access)(void *cookie, uint64_t address, size_t size);
	/* Device memory for .global and .const variables; returns 0 when there is none. */
	uint64_t (*allocate)(void *cookie, size_t size, size_t align);
	/* The same for .managed ones, which the host uses in place. NULL: there are none. */
	uint64_t (*allocate_managed)(void *cookie, size_t size, size_t align);
	void (*release)(void *cookie, uint64_t address);
	/*
	 * malloc and free of kernels. The first returns 0 when there is no room, the second false
	 * when the address is none that the first gave. NULL: there is no heap.
	 */
	uint64_t (*heap_allocate)(void *cookie, uint64_t size, uint64_t align);
	bool (*heap_free)(void *cookie, uint64_t address);
	/* cudaGraphSetConditional of kernels; false: no such handle. NULL: there are none. */
	bool (*set_conditional)(void *cookie, uint64_t handle, uint32_t value);
	void *cookie;
};

enum ptx_status {
	PTX_OK = 0,
	PTX_INVALID,       /* the text is not valid PTX: CUDA_ERROR_INVALID_PTX */
	PTX_NOT_SUPPORTED, /* valid, but this executor lacks it; the log names it */
	PTX_NO_MEMORY,
	PTX_ILLEGAL_ADDRESS,
	PTX_MISALIGNED,
	PTX_ILLEGAL_INSTRUCTION,
	PTX_TRAP,
	PTX_ASSERT,
	PTX_STOPPED, /* poll() asked for it */
};

struct ptx_param {
	uint32_t offset; /* bytes from the start of the parameter block */
	uint32_t size;
};

struct ptx_function_info {
	const char *name;
	uint32_t parameter_count;
	uint32_t parameter_bytes;
	const struct ptx_param *parameters;
	uint32_t registers;      /* per thread, an estimate */
	bool bounds_registers;   /* by .maxnreg */
	uint32_t shared_bytes;   /* static */
	uint32_t local_bytes;    /* per thread */
	uint32_t constant_bytes; /* user .const of the module */
	uint32_t max_threads;    /* .maxntid or the device's 1024 */
	uint32_t ptx_version;    /* 70 for .version 7.0 */
	uint32_t target;         /* 75 for sm_75 */
};

/* An error and its place, in words a person can use; zeroed when nothing went wrong. */
struct ptx_fault {
	const char *function;
	uint64_t address;
	uint32_t size;
	bool write;
	uint32_t block[3], thread[3];
	uint32_t line; /* of the PTX text */
	char message[160];
};

struct ptx_launch {
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared;
	const void *parameters; /* a block laid out as ptx_function_info says */
	/*
	 * Called at least every `poll_instructions` warp instructions; a non-zero answer stops the
	 * grid with PTX_STOPPED. May sleep (time slicing): no thread of the grid runs meanwhile.
	 * Always on the thread that called ptx_run(). NULL: never.
	 */
	int (*poll)(void *cookie);
	void *poll_cookie;
	uint32_t poll_instructions;
	/*
	 * For nanosleep: a clock, and sleeping until it shows so much. Both with poll_cookie, on
	 * the thread that called ptx_run(). NULL: nanosleep only lets other warps have their turn.
	 */
	uint64_t (*clock)(void *cookie);
	void (*rest)(void *cookie, uint64_t until_ns);
	bool cooperative;
};

/*
 * text need not end in NUL. On failure *module is untouched and log (size log_size, always
 * terminated) holds "line N: what". The memory description is copied.
 */
enum ptx_status ptx_module_load(const char *text, size_t length, const struct ptx_memory *memory,
                                struct ptx_module **module, char *log, size_t log_size);
void ptx_module_unload(struct ptx_module *module);

/* The i-th entry function, or NULL past the last; and by name. Owned by the module. */
const struct ptx_function *ptx_module_function(const struct ptx_module *module, uint32_t i);
const struct ptx_function *ptx_module_find(const struct ptx_module *module, const char *name);
/* A .global or .const variable: its device address and size; false when there is none. */
bool ptx_module_global(const struct ptx_module *module, const char *name, uint64_t *address,
                       size_t *size);
/* Returns whether a kernel of the module may call malloc or free. */
bool ptx_module_uses_heap(const struct ptx_module *module);
const struct ptx_function_info *ptx_function_info(const struct ptx_function *function);

/*
 * Runs the grid to its end, on the calling thread and, where blocks are left after the first few
 * thousand warp instructions, on helpers. Kernels whose results could depend on the order of blocks
 * (the value of an atomic operation on global memory is read, floats are added, text is printed,
 * malloc or free is called), those that sleep, and cooperative grids stay on the calling thread.
 * Faults of the kernel come back as a status and a filled *fault, that of the first, never as a
 * signal of the process.
 */
enum ptx_status ptx_run(const struct ptx_function *function, const struct ptx_launch *launch,
                        struct ptx_fault *fault);

#endif
