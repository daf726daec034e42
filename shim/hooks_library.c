/*
 * Code: modules, libraries and what they hand out. Functions and variables go with their module, kernels and
 * modules with their library. What a function takes when it is loaded late is its module's, or its library's.
 */
#include "shim/track.h"

#define LOADED(call, type, out) \
	CREATED(MEASURED(call, (out) ? HANDLE(*(out)) : 0, MEASURED_MOST_MODULE), type, out)

#define LOADS_MODULE(symbol, ...)                                                          \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                        \
	{                                                                                  \
		return LOADED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), module, module); \
	}
#define LOADS_LIBRARY(symbol, ...)                                                           \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                          \
	{                                                                                    \
		return LOADED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), library, library); \
	}

LOADS_MODULE(cuModuleLoad, (CUmodule *, module), (const char *, fname))
LOADS_MODULE(cuModuleLoadData, (CUmodule *, module), (const void *, image))
LOADS_MODULE(cuModuleLoadDataEx, (CUmodule *, module), (const void *, image),
             (unsigned int, numOptions), (CUjit_option *, options), (void **, optionValues))
LOADS_MODULE(cuModuleLoadFatBinary, (CUmodule *, module), (const void *, fatCubin))
LOADS_LIBRARY(cuLibraryLoadData, (CUlibrary *, library), (const void *, code),
              (CUjit_option *, jitOptions), (void **, jitOptionsValues),
              (unsigned int, numJitOptions), (CUlibraryOption *, libraryOptions),
              (void **, libraryOptionValues), (unsigned int, numLibraryOptions))
LOADS_LIBRARY(cuLibraryLoadFromFile, (CUlibrary *, library), (const char *, fileName),
              (CUjit_option *, jitOptions), (void **, jitOptionsValues),
              (unsigned int, numJitOptions), (CUlibraryOption *, libraryOptions),
              (void **, libraryOptionValues), (unsigned int, numLibraryOptions))

HOOK(cuModuleUnload, CUmodule hmod)
{
	return DESTROYED_MEASURED(REAL(cuModuleUnload)(hmod), module, hmod);
}

HOOK(cuLibraryUnload, CUlibrary library)
{
	return DESTROYED_MEASURED(REAL(cuLibraryUnload)(library), library, library);
}

HOOK(cuModuleGetFunction, CUfunction *hfunc, CUmodule hmod, const char *name)
{
	return HANDED_OUT(
	    MEASURED(REAL(cuModuleGetFunction)(hfunc, hmod, name), hmod, MEASURED_MOST_OBJECT),
	    function, hfunc, NULL, module, hmod);
}

HOOK(cuLibraryGetKernel, CUkernel *pKernel, CUlibrary library, const char *name)
{
	return HANDED_OUT(MEASURED(REAL(cuLibraryGetKernel)(pKernel, library, name), library,
	                           MEASURED_MOST_OBJECT),
	                  kernel, pKernel, NULL, library, library);
}

HOOK(cuKernelGetFunction, CUfunction *pFunc, CUkernel kernel)
{
	return HANDED_OUT(MEASURED(REAL(cuKernelGetFunction)(pFunc, kernel),
	                           owner_of(&object_type_kernel, HANDLE(kernel)),
	                           MEASURED_MOST_OBJECT),
	                  function, pFunc, NULL, kernel, kernel);
}

HOOK(cuLibraryGetModule, CUmodule *pMod, CUlibrary library)
{
	return HANDED_OUT(
	    MEASURED(REAL(cuLibraryGetModule)(pMod, library), library, MEASURED_MOST_MODULE),
	    module, pMod, NULL, library, library);
}

/* A variable's address and size: the program may want to know one of them alone. */
#define VARIABLE(call, dptr, bytes, owner_type, owner)                                        \
	({                                                                                    \
		CUresult variable_ = (call);                                                  \
		if (variable_ == CUDA_SUCCESS && (dptr))                                      \
			track_owned(&object_type_global, HANDLE(*(dptr)),                     \
			            &(struct object_weight){.bytes = (bytes) ? *(bytes) : 0}, \
			            &object_type_##owner_type, HANDLE(owner));                \
		variable_;                                                                    \
	})

HOOK(cuModuleGetGlobal, CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod, const char *name)
{
	return VARIABLE(REAL(cuModuleGetGlobal)(dptr, bytes, hmod, name), dptr, bytes, module,
	                hmod);
}

HOOK(cuModuleGetGlobal_v2, CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	return VARIABLE(REAL(cuModuleGetGlobal_v2)(dptr, bytes, hmod, name), dptr, bytes, module,
	                hmod);
}

HOOK(cuLibraryGetGlobal, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return VARIABLE(REAL(cuLibraryGetGlobal)(dptr, bytes, library, name), dptr, bytes, library,
	                library);
}

HOOK(cuLibraryGetManaged, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return VARIABLE(REAL(cuLibraryGetManaged)(dptr, bytes, library, name), dptr, bytes, library,
	                library);
}

HOOK(cuFuncLoad, CUfunction function)
{
	return MEASURED(REAL(cuFuncLoad)(function),
	                owner_of(&object_type_function, HANDLE(function)), MEASURED_MOST_OBJECT);
}
