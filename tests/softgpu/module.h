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
	struct library *prev, *next;
};

struct kernel {
	struct handle handle;
	struct library *library;
	char *name;
	struct kernel *prev, *next;
};

/* jit_log.c: where the caller of a compiler or linker wants to read what went wrong. */
struct jit_log {
	char *text;
	size_t size;
	void **used; /* the option's value, which becomes the bytes written */
};
void jit_log_find(struct jit_log *errors, unsigned int count, const CUjit_option *names,
                  void **values);
void jit_log_write(const struct jit_log *errors, const char *what);

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
