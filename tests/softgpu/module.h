/* SPDX-License-Identifier: MIT */
/* Modules, libraries, functions and kernels. */
#ifndef SOFTGPU_MODULE_H
#define SOFTGPU_MODULE_H

#include "tests/softgpu/driver.h"

struct module {
	struct handle handle;
	struct context *context;
	struct ptx_module *ptx;
	struct library *library;    /* it was made for, or NULL: cuModuleUnload is not for those */
	struct function *functions; /* asked for so far */
	unsigned int max_registers; /* of a thread; 0: as many as it wants */
	struct module *prev, *next;
};

struct function {
	struct handle handle;
	struct module *module;
	const struct ptx_function *ptx;
	const struct ptx_function_info *info;
	int dynamic_shared_most; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
	int carveout;
	struct function *prev, *next;
};

/* The text of a library, for any context; it becomes a module where it is first used. */
struct library {
	struct handle handle;
	char *text;
	struct ptx_module *catalogue; /* what is in it; never run */
	struct kernel *kernels;
	unsigned int max_registers; /* of its modules */
	struct library *prev, *next;
};

struct kernel {
	struct handle handle;
	struct library *library;
	char *name;
	struct kernel *prev, *next;
};

/* jit.c: what the caller of a compiler or linker wants, and where it wants its answers. */
struct jit_log {
	char *text;
	size_t size;
	void **used; /* the option's value, which becomes the bytes written */
};
struct jit {
	struct jit_log errors, info;
	void **wall_time; /* the option's value, which becomes a float: milliseconds */
	uint64_t began_ns;
	unsigned int max_registers; /* of a thread; 0: as many as it wants */
	bool verbose, for_threads, for_target;
};
CUresult jit_begin(struct jit *jit, unsigned int count, const CUjit_option *names, void **values);
/* Answers; `info` is for who wants a verbose log. */
void jit_end(const struct jit *jit, const char *error, const char *info);

/* The function of that name in the module; the same pointer each time. NULL: there is none. */
CUresult module_function(struct module *module, const char *name, struct function **function);
/* The module of a library in a context, loaded when it is not yet. */
CUresult library_module(struct library *library, struct context *context, struct module **module);
/* A CUfunction, or a CUkernel cast to one, in this context. */
CUresult function_find(CUfunction handle, struct context *context, struct function **function);
CUresult module_load(struct context *context, const void *image, char *log, size_t log_size,
                     struct module **module);
CUresult result_of_load(enum ptx_status status);
/* Waits for the module's context, releasing driver_lock meanwhile. */
void module_free(struct module *module);
/* Registers of a thread, within the bound of the module; a kernel's own bound wins. */
unsigned int module_registers(const struct module *module, const struct ptx_function_info *info);
void modules_forget_context(struct context *context);
/* The bytes of a file and a NUL behind them; NULL: FILE_NOT_FOUND. `size` may be NULL. */
char *read_text(const char *path, size_t *size);
CUresult function_attribute(const struct function *function, CUfunction_attribute attribute,
                            int *value);
CUresult function_set_attribute(struct function *function, CUfunction_attribute attribute,
                                int value);
CUresult param_info(const struct ptx_function_info *info, size_t index, size_t *offset,
                    size_t *size);

#endif
