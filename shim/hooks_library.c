/* SPDX-License-Identifier: MIT */
/*
 * Code: modules, libraries and what they hand out. Functions and variables go with their module,
 * kernels and modules with their library. What a function takes when it is loaded late is its
 * module's, or its library's.
 */
#include "shim/track.h"

#include "core/memory/arena/heat.h"
#include "core/memory/uses/image.h"
#include "shim/sampled.h"

/*
 * --- by what a function's parameters are known: an image and the name in it; modules may be loaded
 * before there is an arena ---
 */

static void note_image(const struct resource_type *type, uint64_t code, const void *image)
{
	KEEP_ERRNO;
	struct resource *object;

	if (!image || !job_is_active() || !placement_ask(false, needs_images))
		return;
	object = context_find_object(type, code);
	if (object)
		placement_tell(loaded, object, image);
	resource_release(object);
}

/* Returns the resource that holds an image: a library's module has the library's. */
static struct resource *image_holder(const struct resource_type *type, uint64_t code)
{
	struct resource *object = context_find_object(type, code);
	uint64_t library = object ? object_owner(object) : 0;

	if (!library)
		return object;
	resource_release(object);
	return context_find_object(&object_type_library, library);
}

static void note_function(CUfunction function, const struct resource_type *owner_type,
                          uint64_t owner, const char *name)
{
	KEEP_ERRNO;
	struct resource *object;

	if (!job_is_active() || !placement_ask(false, needs_images))
		return;
	object = image_holder(owner_type, owner);
	placement_tell(handed_out, function, object, name);
	resource_release(object);
}

static void note_function_of(CUfunction function, CUkernel kernel)
{
	KEEP_ERRNO;

	if (job_is_active() && placement_ask(false, needs_images))
		placement_tell(are_those_of, function, (CUfunction)kernel);
}

/* --- loaded --- */

/* most: the bytes that it may come to. */
static void enter_loaded(const struct resource_type *type, uint64_t object, uint64_t most)
{
	track_enter(&(struct object_entry){.type = type, .address = object, .weight.most = most});
}

/*
 * A library remembers what it may come to: its memory is taken when something of it is asked for in
 * a context.
 */
#define LOADED(call, type, out, image, bound)                                                   \
	({                                                                                      \
		uint64_t most_ = IMAGE_MOST_UNKNOWN;                                            \
		CUresult loaded_ = MEASURED(call, (out) ? HANDLE(*(out)) : 0, most_ = (bound)); \
		if (loaded_ == CUDA_SUCCESS && (out)) {                                         \
			enter_loaded(&object_type_##type, HANDLE(*(out)), most_);               \
			note_image(&object_type_##type, HANDLE(*(out)), image);                 \
		}                                                                               \
		loaded_;                                                                        \
	})

/* image: NULL where the code is in a file. */
#define LOADS(symbol, type, image, ...)                                                      \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                          \
	{                                                                                    \
		return LOADED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), type, type, image, \
		              image_most(image));                                            \
	}

LOADS(cuModuleLoad, module, NULL, (CUmodule *, module), (const char *, fname))
LOADS(cuModuleLoadData, module, image, (CUmodule *, module), (const void *, image))
LOADS(cuModuleLoadDataEx, module, image, (CUmodule *, module), (const void *, image),
      (unsigned int, numOptions), (CUjit_option *, options), (void **, optionValues))
LOADS(cuModuleLoadFatBinary, module, fatCubin, (CUmodule *, module), (const void *, fatCubin))
LOADS(cuLibraryLoadData, library, code, (CUlibrary *, library), (const void *, code),
      (CUjit_option *, jitOptions), (void **, jitOptionsValues), (unsigned int, numJitOptions),
      (CUlibraryOption *, libraryOptions), (void **, libraryOptionValues),
      (unsigned int, numLibraryOptions))
LOADS(cuLibraryLoadFromFile, library, NULL, (CUlibrary *, library), (const char *, fileName),
      (CUjit_option *, jitOptions), (void **, jitOptionsValues), (unsigned int, numJitOptions),
      (CUlibraryOption *, libraryOptions), (void **, libraryOptionValues),
      (unsigned int, numLibraryOptions))

static uint64_t library_most_of(const struct resource_type *type, uint64_t code)
{
	struct resource *found = context_find_object(type, code);
	uint64_t most = found ? object_weight(found).most : 0;

	resource_release(found);
	return most;
}

static uint64_t most_of_library(uint64_t library)
{
	uint64_t most = library_most_of(&object_type_library, library);

	return most ? most : MEASURED_MOST_OBJECT;
}

/* Returns what a look-up in a module may take: no more than its image, or its library's, can hold.
 */
static uint64_t most_of_function(uint64_t code)
{
	uint64_t most = library_most_of(&object_type_module, code);

	most = most ? most : most_of_library(code);
	return most < MEASURED_MOST_OBJECT ? most : MEASURED_MOST_OBJECT;
}

/*
 * Finds what is unloaded in the end: a function may be a kernel's, a kernel and a module a
 * library's.
 */
static uint64_t code_of(const struct resource_type *type, uint64_t object)
{
	uint64_t owner = owner_of(type, object);

	if (type == &object_type_function)
		owner = owner_of(&object_type_kernel, owner);
	return owner_of(&object_type_module, owner);
}

HOOK(cuModuleUnload, CUmodule hmod)
{
	sampled_forget_asked();
	return DESTROYED_MEASURED(PASSING_GATE(REAL(cuModuleUnload)(hmod)), module, hmod);
}

HOOK(cuLibraryUnload, CUlibrary library)
{
	sampled_forget_asked();
	return DESTROYED_MEASURED(PASSING_GATE(REAL(cuLibraryUnload)(library)), library, library);
}

HOOK(cuModuleGetFunction, CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult result = HANDED_OUT(
	    MEASURED_SELDOM(REAL(cuModuleGetFunction)(hfunc, hmod, name),
	                    code_of(&object_type_module, HANDLE(hmod)),
	                    most_of_function(code_of(&object_type_module, HANDLE(hmod)))),
	    function, hfunc, NULL, module, hmod);

	if (result == CUDA_SUCCESS && hfunc)
		note_function(*hfunc, &object_type_module, HANDLE(hmod), name);
	return result;
}

HOOK(cuLibraryGetKernel, CUkernel *pKernel, CUlibrary library, const char *name)
{
	CUresult result =
	    HANDED_OUT(MEASURED_SELDOM(REAL(cuLibraryGetKernel)(pKernel, library, name), library,
	                               MEASURED_MOST_OBJECT),
	               kernel, pKernel, NULL, library, library);

	if (result == CUDA_SUCCESS && pKernel)
		note_function((CUfunction)*pKernel, &object_type_library, HANDLE(library), name);
	return result;
}

HOOK(cuKernelGetFunction, CUfunction *pFunc, CUkernel kernel)
{
	CUresult result = HANDED_OUT(
	    MEASURED_SELDOM(REAL(cuKernelGetFunction)(pFunc, kernel),
	                    code_of(&object_type_kernel, HANDLE(kernel)),
	                    most_of_library(code_of(&object_type_kernel, HANDLE(kernel)))),
	    function, pFunc, NULL, kernel, kernel);

	if (result == CUDA_SUCCESS && pFunc)
		note_function_of(*pFunc, kernel);
	return result;
}

HOOK(cuLibraryGetModule, CUmodule *pMod, CUlibrary library)
{
	return HANDED_OUT(MEASURED_SELDOM(REAL(cuLibraryGetModule)(pMod, library), library,
	                                  most_of_library(HANDLE(library))),
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

HOOK(cuModuleGetGlobal_v2, CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	return VARIABLE(REAL(cuModuleGetGlobal_v2)(dptr, bytes, hmod, name), dptr, bytes, module,
	                hmod);
}

HOOK(cuLibraryGetGlobal, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return VARIABLE(MEASURED_SELDOM(REAL(cuLibraryGetGlobal)(dptr, bytes, library, name),
	                                library, most_of_library(HANDLE(library))),
	                dptr, bytes, library, library);
}

HOOK(cuLibraryGetManaged, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return VARIABLE(MEASURED_SELDOM(REAL(cuLibraryGetManaged)(dptr, bytes, library, name),
	                                library, most_of_library(HANDLE(library))),
	                dptr, bytes, library, library);
}

HOOK(cuFuncLoad, CUfunction function)
{
	return MEASURED_SELDOM(REAL(cuFuncLoad)(function),
	                       code_of(&object_type_function, HANDLE(function)),
	                       MEASURED_MOST_OBJECT);
}
