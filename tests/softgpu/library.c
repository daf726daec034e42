/* SPDX-License-Identifier: MIT */
/* Libraries: code without a context, which becomes a module in each context that uses it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/fatbin.h"
#include "tests/softgpu/memory.h"
#include "tests/softgpu/module.h"

/* Variables of a catalogue lie in host memory: nobody asks where. */
static uint64_t allocate(void *cookie, size_t size, size_t align)
{
	(void)cookie;
	return (uintptr_t)aligned_alloc(align, (size + align - 1) & ~(align - 1));
}

static void release(void *cookie, uint64_t address)
{
	(void)cookie;
	free((void *)(uintptr_t)address); /* NOLINT(performance-no-int-to-ptr) */
}

/* Reads the code without a context, so that errors come out now and names can be asked for. */
static CUresult list_contents(const char *text, struct ptx_module **catalogue, char *log,
                              size_t log_size)
{
	struct ptx_memory memory = {
	    .allocate = allocate, .allocate_managed = allocate, .release = release};
	CUresult result =
	    result_of_load(ptx_module_load(text, strlen(text), &memory, catalogue, log, log_size));
	if (log[0])
		say("library: %s", log);
	return result;
}

static CUresult load(const char *call, CUlibrary *out, const void *code, unsigned int count,
                     const CUjit_option *names, void **values)
{
	struct jit jit;
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	result = out && code ? jit_begin(&jit, count, names, values) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return leave(result);
	char *text, log[256] = "";
	result = image_text(code, &text);
	if (result != CUDA_SUCCESS)
		return leave(result);
	struct ptx_module *catalogue;
	result = list_contents(text, &catalogue, log, sizeof(log));
	jit_end(&jit, log, "");
	if (result != CUDA_SUCCESS) {
		free(text);
		return leave(result);
	}
	struct library *library = calloc(1, sizeof(*library));
	if (!library || !handle_add(&library->handle, HANDLE_LIBRARY)) {
		ptx_module_unload(catalogue);
		free(text);
		free(library);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	library->text = text;
	library->catalogue = catalogue;
	library->max_registers = jit.max_registers;
	*out = (CUlibrary)library;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit_options,
                                  void **jit_values, unsigned int jit_count,
                                  CUlibraryOption *options, void **values, unsigned int count)
{
	if ((jit_count && (!jit_options || !jit_values)) || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	(void)values; /* how long `code` lives does not matter: it is copied */
	return load(__func__, out, code, jit_count, jit_options, jit_values);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit_options,
                                      void **jit_values, unsigned int jit_count,
                                      CUlibraryOption *options, void **values, unsigned int count)
{
	if (!out || !path || (jit_count && (!jit_options || !jit_values)) || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	(void)values;
	char *text = read_text(path, NULL);
	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	CUresult result = load(__func__, out, text, jit_count, jit_options, jit_values);
	free(text);
	return result;
}

CUresult library_module(struct library *library, struct context *context, struct module **out)
{
	struct module *module;
	DL_FOREACH (context->modules, module) {
		if (module->library == library) {
			*out = module;
			return CUDA_SUCCESS;
		}
	}
	char log[256] = "";
	CUresult result = module_load(context, library->text, log, sizeof(log), &module);
	if (result != CUDA_SUCCESS) {
		if (log[0])
			say("library: %s", log);
		return result;
	}
	module->library = library;
	module->max_registers = library->max_registers;
	*out = module;
	return CUDA_SUCCESS;
}

/* Enters a call about a library. */
static CUresult enter_library(const char *call, CUlibrary handle, struct library **library)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*library = handle_find(handle, HANDLE_LIBRARY);
	return *library ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

/* Enters a call about what a library is in the current context. */
static CUresult enter_library_module(const char *call, CUlibrary handle, struct module **module)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct library *library = handle_find(handle, HANDLE_LIBRARY);
	result = library ? library_module(library, context, module) : CUDA_ERROR_INVALID_HANDLE;
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : leave(result);
}

static struct module *any_module_of(const struct library *library)
{
	for (struct context *context = contexts; context; context = context->next) {
		struct module *module;
		DL_FOREACH (context->modules, module) {
			if (module->library == library)
				return module;
		}
	}
	return NULL;
}

EXPORT CUresult cuLibraryUnload(CUlibrary handle)
{
	struct library *library;
	CUresult result = enter_library(__func__, handle, &library);
	if (result != CUDA_SUCCESS)
		return result;
	/* From here on nobody finds it; then its modules go, each when its context has finished. */
	handle_remove(&library->handle);
	struct kernel *kernel, *next;
	DL_FOREACH (library->kernels, kernel) {
		handle_remove(&kernel->handle);
	}
	for (struct module *module; (module = any_module_of(library));)
		module_free(module);
	DL_FOREACH_SAFE(library->kernels, kernel, next)
	{
		free(kernel->name);
		free(kernel);
	}
	ptx_module_unload(library->catalogue);
	free(library->text);
	free(library);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
	struct module *module;
	CUresult result = enter_library_module(__func__, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUmodule)module;
	return leave(CUDA_SUCCESS);
}

static CUresult library_variable(const char *call, CUdeviceptr *address, size_t *size,
                                 CUlibrary handle, const char *name, bool managed)
{
	struct module *module;
	CUresult result = enter_library_module(call, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t found;
	size_t found_size;
	if (!name || (!address && !size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!ptx_module_global(module->ptx, name, &found, &found_size) ||
	    (managed && window_holds(found)))
		return leave(CUDA_ERROR_NOT_FOUND);
	if (address)
		*address = found;
	if (size)
		*size = found_size;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary handle,
                                   const char *name)
{
	return library_variable(__func__, address, size, handle, name, false);
}

EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary handle,
                                    const char *name)
{
	return library_variable(__func__, address, size, handle, name, true);
}

static struct kernel *kernel_named(struct library *library, const char *name)
{
	struct kernel *kernel;
	DL_FOREACH (library->kernels, kernel) {
		if (strcmp(kernel->name, name) == 0)
			return kernel;
	}
	kernel = calloc(1, sizeof(*kernel));
	char *copy = strdup(name);
	if (!kernel || !copy || !handle_add(&kernel->handle, HANDLE_KERNEL)) {
		free(copy);
		free(kernel);
		return NULL;
	}
	kernel->library = library;
	kernel->name = copy;
	DL_APPEND(library->kernels, kernel);
	return kernel;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
	struct library *library;
	CUresult result = enter_library(__func__, handle, &library);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || !name)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!ptx_module_find(library->catalogue, name))
		return leave(CUDA_ERROR_NOT_FOUND);
	struct kernel *kernel = kernel_named(library, name);
	if (!kernel)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*out = (CUkernel)kernel;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
	struct library *library;
	CUresult result = enter_library(__func__, handle, &library);
	if (result != CUDA_SUCCESS)
		return result;
	if (!count)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*count = 0;
	while (ptx_module_function(library->catalogue, *count))
		(*count)++;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary handle)
{
	struct library *library;
	CUresult result = enter_library(__func__, handle, &library);
	if (result != CUDA_SUCCESS)
		return result;
	if (!kernels || count == 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (unsigned int i = 0; i < count; i++) {
		const struct ptx_function *ptx = ptx_module_function(library->catalogue, i);
		if (!ptx)
			break;
		kernels[i] = (CUkernel)kernel_named(library, ptx_function_info(ptx)->name);
		if (!kernels[i])
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	return leave(CUDA_SUCCESS);
}

static CUresult kernel_function(struct kernel *kernel, struct context *context,
                                struct function **function)
{
	struct module *module;
	CUresult result = library_module(kernel->library, context, &module);
	return result == CUDA_SUCCESS ? module_function(module, kernel->name, function) : result;
}

CUresult function_find(CUfunction handle, struct context *context, struct function **function)
{
	*function = handle_find(handle, HANDLE_FUNCTION);
	if (*function)
		return (*function)->module->context == context ? CUDA_SUCCESS
		                                               : CUDA_ERROR_INVALID_HANDLE;
	struct kernel *kernel = handle_find(handle, HANDLE_KERNEL);
	return kernel ? kernel_function(kernel, context, function) : CUDA_ERROR_INVALID_HANDLE;
}

/* Enters a call about a kernel that needs no context. */
static CUresult enter_kernel_anywhere(const char *call, CUkernel handle, struct kernel **kernel)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*kernel = handle_find(handle, HANDLE_KERNEL);
	return *kernel ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

/* Enters a call about a kernel as it is in the current context. */
static CUresult enter_kernel(const char *call, CUkernel handle, struct kernel **kernel,
                             struct function **function)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	*kernel = handle_find(handle, HANDLE_KERNEL);
	result = *kernel ? kernel_function(*kernel, context, function) : CUDA_ERROR_INVALID_HANDLE;
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : leave(result);
}

EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
	struct kernel *kernel;
	struct function *function;
	CUresult result = enter_kernel(__func__, handle, &kernel, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUfunction)function;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
	struct kernel *kernel;
	CUresult result = enter_kernel_anywhere(__func__, handle, &kernel);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUlibrary)kernel->library;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel handle)
{
	struct kernel *kernel;
	CUresult result = enter_kernel_anywhere(__func__, handle, &kernel);
	if (result == CUDA_ERROR_INVALID_HANDLE && !handle)
		return CUDA_ERROR_INVALID_VALUE; /* as cuda-bindings' own tests have it */
	if (result != CUDA_SUCCESS)
		return result;
	if (!name)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*name = kernel->name;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
	struct kernel *kernel;
	CUresult result = enter_kernel_anywhere(__func__, handle, &kernel);
	if (result != CUDA_SUCCESS)
		return result;
	const struct ptx_function *ptx = ptx_module_find(kernel->library->catalogue, kernel->name);
	return leave(param_info(ptx_function_info(ptx), index, offset, size));
}

/* Attributes are a device's; here they are those of the module in the current context. */
EXPORT CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel handle,
                                     CUdevice ordinal)
{
	struct kernel *kernel;
	struct function *function;
	CUresult result = enter_kernel(__func__, handle, &kernel, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device_of(ordinal))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	return leave(function_attribute(function, attribute, value));
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                     CUdevice ordinal)
{
	struct kernel *kernel;
	struct function *function;
	CUresult result = enter_kernel(__func__, handle, &kernel, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device_of(ordinal))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	return leave(function_set_attribute(function, attribute, value));
}

EXPORT CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache cache_config, CUdevice ordinal)
{
	struct kernel *kernel;
	struct function *function;
	CUresult result = enter_kernel(__func__, handle, &kernel, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device_of(ordinal))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	return leave(cache_config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
	                                                       : CUDA_SUCCESS);
}
