/* SPDX-License-Identifier: MIT */
/* Modules: PTX loaded into a context, and the functions and variables in it. */
#include "tests/softgpu/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/fatbin.h"
#include "tests/softgpu/memory.h"

#define LOG_SIZE 1024

CUresult result_of_load(enum ptx_status status)
{
	switch (status) {
	case PTX_OK:
		return CUDA_SUCCESS;
	case PTX_INVALID:
		return CUDA_ERROR_INVALID_PTX;
	case PTX_NO_MEMORY:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult module_load(struct context *context, const void *image, char *log, size_t log_size,
                     struct module **out)
{
	char *text;
	CUresult result = image_text(image, &text);
	if (result != CUDA_SUCCESS)
		return result;
	struct module *module = calloc(1, sizeof(*module));
	if (!module || !handle_add(&module->handle, HANDLE_MODULE)) {
		free(module);
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct ptx_memory memory = kernel_memory(context);
	result = result_of_load(
	    ptx_module_load(text, strlen(text), &memory, &module->ptx, log, log_size));
	free(text);
	if (result == CUDA_SUCCESS && ptx_module_uses_heap(module->ptx)) {
		result = kernel_heap_open(context);
		if (result != CUDA_SUCCESS)
			ptx_module_unload(module->ptx);
	}
	if (result != CUDA_SUCCESS) {
		handle_remove(&module->handle);
		free(module);
		return result;
	}
	module->context = context;
	DL_APPEND(context->modules, module);
	*out = module;
	return CUDA_SUCCESS;
}

void module_free(struct module *module)
{
	/* First nobody finds it any more; then what still runs in it comes to its end. */
	struct function *function, *next;
	handle_remove(&module->handle);
	DL_DELETE(module->context->modules, module);
	DL_FOREACH (module->functions, function) {
		handle_remove(&function->handle);
	}
	context_drain(module->context);
	ptx_module_unload(module->ptx);
	DL_FOREACH_SAFE(module->functions, function, next)
	{
		free(function);
	}
	free(module);
}

unsigned int module_registers(const struct module *module, const struct ptx_function_info *info)
{
	return module->max_registers && module->max_registers < info->registers &&
	               !info->bounds_registers
	           ? module->max_registers
	           : info->registers;
}

void modules_forget_context(struct context *context)
{
	while (context->modules)
		module_free(context->modules);
}

/* What a compiler would tell of the functions. */
static void describe(const struct module *module, char *text, size_t size)
{
	const struct ptx_function *ptx;
	size_t used = 0;
	for (uint32_t i = 0; (ptx = ptx_module_function(module->ptx, i)) && used < size; i++) {
		const struct ptx_function_info *info = ptx_function_info(ptx);
		int written = snprintf(text + used, size - used,
		                       "info    : function %s: %u registers, %u bytes shared, %u "
		                       "bytes local\n",
		                       info->name, module_registers(module, info),
		                       info->shared_bytes, info->local_bytes);
		used += written > 0 ? (size_t)written : 0;
	}
}

static CUresult load(const char *call, CUmodule *out, const void *image, unsigned int count,
                     const CUjit_option *names, void **values)
{
	struct context *context;
	struct jit jit;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result = out ? jit_begin(&jit, count, names, values) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return leave(result);
	char log[LOG_SIZE] = "", info[4 * LOG_SIZE] = "";
	struct module *module;
	result = module_load(context, image, log, sizeof(log), &module);
	if (result == CUDA_SUCCESS) {
		module->max_registers = jit.max_registers;
		describe(module, info, sizeof(info));
		*out = (CUmodule)module;
	} else if (log[0]) {
		say("%s: %s", call, log);
	}
	jit_end(&jit, log, info);
	return leave(result);
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
	return load(__func__, out, image, 0, NULL, NULL);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                                   CUjit_option *names, void **values)
{
	return load(__func__, out, image, count, names, values);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	return load(__func__, out, image, 0, NULL, NULL);
}

char *read_text(const char *path, size_t *size)
{
	FILE *file = path ? fopen(path, "re") : NULL;
	if (!file)
		return NULL;
	char *text = NULL;
	size_t length = 0, capacity = 0;
	for (;;) {
		if (capacity - length < 4096) {
			capacity = capacity ? 2 * capacity : 65536;
			char *larger = realloc(text, capacity);
			if (!larger)
				break;
			text = larger;
		}
		size_t got = fread(text + length, 1, capacity - length - 1, file);
		length += got;
		text[length] = '\0';
		if (got == 0)
			break;
	}
	fclose(file);
	if (size)
		*size = length;
	return text;
}

EXPORT CUresult cuModuleLoad(CUmodule *out, const char *path)
{
	if (!out || !path)
		return CUDA_ERROR_INVALID_VALUE;
	char *text = read_text(path, NULL);
	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	CUresult result = load(__func__, out, text, 0, NULL, NULL);
	free(text);
	return result;
}

/* Enters a call about a module; a wrong handle is INVALID_HANDLE. */
static CUresult enter_module(const char *call, CUmodule handle, struct module **module)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	*module = handle_find(handle, HANDLE_MODULE);
	return *module ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

EXPORT CUresult cuModuleUnload(CUmodule handle)
{
	struct module *module;
	CUresult result = enter_module(__func__, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	if (module->library)
		return leave(CUDA_ERROR_NOT_PERMITTED);
	module_free(module);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!mode)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*mode = CU_MODULE_EAGER_LOADING;
	return leave(CUDA_SUCCESS);
}

static struct function *function_of(struct module *module, const struct ptx_function *ptx)
{
	struct function *function;
	DL_FOREACH (module->functions, function) {
		if (function->ptx == ptx)
			return function;
	}
	function = calloc(1, sizeof(*function));
	if (!function || !handle_add(&function->handle, HANDLE_FUNCTION)) {
		free(function);
		return NULL;
	}
	function->module = module;
	function->ptx = ptx;
	function->info = ptx_function_info(ptx);
	/* Without asking for more, static and dynamic shared memory share the plain limit. */
	int rest = SHARED_PER_BLOCK - (int)function->info->shared_bytes;
	function->dynamic_shared_most = rest > 0 ? rest : 0;
	function->carveout = -1;
	DL_APPEND(module->functions, function);
	return function;
}

CUresult module_function(struct module *module, const char *name, struct function **function)
{
	const struct ptx_function *ptx = ptx_module_find(module->ptx, name);
	if (!ptx)
		return CUDA_ERROR_NOT_FOUND;
	*function = function_of(module, ptx);
	return *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
	struct module *module;
	CUresult result = enter_module(__func__, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	struct function *function;
	if (!out || !name)
		return leave(CUDA_ERROR_INVALID_VALUE);
	result = module_function(module, name, &function);
	if (result == CUDA_SUCCESS)
		*out = (CUfunction)function;
	return leave(result);
}

static unsigned int function_count(const struct ptx_module *ptx)
{
	unsigned int count = 0;
	while (ptx_module_function(ptx, count))
		count++;
	return count;
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule handle)
{
	struct module *module;
	CUresult result = enter_module(__func__, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	if (!count)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*count = function_count(module->ptx);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count,
                                           CUmodule handle)
{
	struct module *module;
	CUresult result = enter_module(__func__, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	if (!functions || count == 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (unsigned int i = 0; i < count && ptx_module_function(module->ptx, i); i++) {
		functions[i] = (CUfunction)function_of(module, ptx_module_function(module->ptx, i));
		if (!functions[i])
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule handle,
                                     const char *name)
{
	struct module *module;
	CUresult result = enter_module(__func__, handle, &module);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t found;
	size_t found_size;
	if (!name || (!address && !size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!ptx_module_global(module->ptx, name, &found, &found_size))
		return leave(CUDA_ERROR_NOT_FOUND);
	if (address)
		*address = found;
	if (size)
		*size = found_size;
	return leave(CUDA_SUCCESS);
}
