/* SPDX-License-Identifier: MIT */
/* Functions: attributes, parameters, and how many blocks of one fit on a multiprocessor. */
#include <signal.h>
#include <string.h>

#include "tests/softgpu/module.h"

/* Enters a call about a function; a wrong handle is INVALID_HANDLE. */
static CUresult enter_function(const char *call, CUfunction handle, struct function **function)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result = function_find(handle, context, function);
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : leave(result);
}

CUresult function_attribute(const struct function *function, CUfunction_attribute attribute,
                            int *value)
{
	const struct ptx_function_info *info = function->info;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)info->max_threads;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)info->shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = (int)info->constant_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)info->local_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)module_registers(function->module, info);
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = (int)info->target;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = CAPABILITY_MAJOR * 10 + CAPABILITY_MINOR;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = function->dynamic_shared_most;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = function->carveout;
		break;
	default:
		if ((unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		*value = 0;
	}
	return CUDA_SUCCESS;
}

CUresult function_set_attribute(struct function *function, CUfunction_attribute attribute,
                                int value)
{
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > SHARED_PER_BLOCK_OPTIN - (int)function->info->shared_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		function->dynamic_shared_most = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		function->carveout = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult param_info(const struct ptx_function_info *info, size_t index, size_t *offset,
                    size_t *size)
{
	if (!offset || index >= info->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = info->parameters[index].offset;
	if (size)
		*size = info->parameters[index].size;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	return result == CUDA_SUCCESS ? leave(function_attribute(function, attribute, value))
	                              : result;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	return result == CUDA_SUCCESS ? leave(function_set_attribute(function, attribute, value))
	                              : result;
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache cache_config)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	return leave(cache_config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
	                                                       : CUDA_SUCCESS);
}

EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig shared_config)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	return leave(shared_config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
	                 ? CUDA_ERROR_INVALID_VALUE
	                 : CUDA_SUCCESS);
}

EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction handle)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUmodule)function->module;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction handle)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result == CUDA_ERROR_INVALID_HANDLE && !handle)
		return CUDA_ERROR_INVALID_VALUE; /* as cuda-bindings' own tests have it */
	if (result != CUDA_SUCCESS)
		return result;
	if (!name)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*name = function->info->name;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	struct function *function;
	if (config()->traits.kernel_crashes && handle_find(handle, HANDLE_KERNEL))
		raise(SIGSEGV);
	CUresult result = enter_function(__func__, handle, &function);
	return result == CUDA_SUCCESS ? leave(param_info(function->info, index, offset, size))
	                              : result;
}

EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!state)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncLoad(CUfunction handle)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	return result == CUDA_SUCCESS ? leave(CUDA_SUCCESS) : result;
}
