/*
 * What the driver hands out is in the registry until it is destroyed: every row that makes or destroys an object,
 * against stand-ins for the driver's functions that succeed and count handles upwards.
 *
 * - made by any form of a call and destroyed by any form, the count of its type goes up and comes back;
 * - a destroy that the driver refuses leaves it where it was;
 * - what belongs to another object goes with it, and everything of a context with the context;
 * - a million objects made and destroyed by eight threads leave nothing behind.
 */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/job.h"
#include "shim/track.h"

/* A sanitizer is slow, and keeps the heap's books itself: there only what the registry counts is looked at. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { PER_THREAD_OBJECTS = 12500 };
#else
enum { PER_THREAD_OBJECTS = 125000 };
#endif
enum { ARGUMENTS = 16, BUFFER = 4096, THREADS = 8, WARM = 4000 };

static int failures;
#define FAIL(...) (printf(__VA_ARGS__), putchar('\n'), failures++)

/* --- the driver's part --- */

static _Atomic uint64_t last_handle = 0x10000;
static _Atomic int refuses;
static __thread CUcontext current;

static CUresult make_0(uint64_t *out)
{
	*out = atomic_fetch_add(&last_handle, 16) + 16;
	return CUDA_SUCCESS;
}

static CUresult make_1(uint64_t unused, uint64_t *out)
{
	(void)unused;
	return make_0(out);
}

static CUresult succeed(void)
{
	return atomic_load(&refuses) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult destroy_context(CUcontext context)
{
	if (current == context)
		current = NULL;
	return CUDA_SUCCESS;
}

static CUresult current_context(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult device_zero(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult one(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

/* --- the rows --- */

struct maker {
	const struct resource_type *type;
	enum entry entry;
	int out;   /* which parameter */
	int owner; /* which parameter; 0: none */
	const struct resource_type *owner_type;
};
#define MAKES(type, symbol)                                     \
	{                                                       \
		&object_type_##type, ENTRY_##symbol, 0, 0, NULL \
	}
#define OWNED(type, symbol, at, owner)                                           \
	{                                                                        \
		&object_type_##type, ENTRY_##symbol, 0, at, &object_type_##owner \
	}
static const struct maker makers[] = {
    MAKES(event, cuEventCreate),
    MAKES(event, cuIpcOpenEventHandle),
    MAKES(stream, cuStreamCreate),
    MAKES(stream, cuStreamCreateWithPriority),
    MAKES(module, cuModuleLoad),
    MAKES(module, cuModuleLoadData),
    MAKES(module, cuModuleLoadDataEx),
    MAKES(module, cuModuleLoadFatBinary),
    MAKES(library, cuLibraryLoadData),
    MAKES(library, cuLibraryLoadFromFile),
    MAKES(graph, cuGraphCreate),
    MAKES(graph, cuGraphClone),
    {&object_type_graph, ENTRY_cuStreamEndCapture, 1, 0, NULL},
    {&object_type_graph, ENTRY_cuStreamEndCapture_ptsz, 1, 0, NULL},
    MAKES(graph_exec, cuGraphInstantiate),
    MAKES(graph_exec, cuGraphInstantiate_v2),
    MAKES(graph_exec, cuGraphInstantiateWithFlags),
    MAKES(graph_exec, cuGraphInstantiateWithParams),
    MAKES(graph_exec, cuGraphInstantiateWithParams_ptsz),
    OWNED(graph_node, cuGraphAddBatchMemOpNode, 1, graph),
    OWNED(graph_node, cuGraphAddChildGraphNode, 1, graph),
    OWNED(graph_node, cuGraphAddHostNode, 1, graph),
    OWNED(graph_node, cuGraphAddKernelNode, 1, graph),
    OWNED(graph_node, cuGraphAddKernelNode_v2, 1, graph),
    OWNED(graph_node, cuGraphAddMemAllocNode, 1, graph),
    OWNED(graph_node, cuGraphAddMemFreeNode, 1, graph),
    OWNED(graph_node, cuGraphAddMemcpyNode, 1, graph),
    OWNED(graph_node, cuGraphAddMemsetNode, 1, graph),
    OWNED(graph_node, cuGraphAddNode, 1, graph),
    OWNED(graph_node, cuGraphAddNode_v2, 1, graph),
    OWNED(conditional, cuGraphConditionalHandleCreate, 1, graph),
    OWNED(function, cuModuleGetFunction, 1, module),
    OWNED(global, cuModuleGetGlobal, 2, module),
    OWNED(global, cuModuleGetGlobal_v2, 2, module),
    OWNED(global, cuLibraryGetGlobal, 2, library),
    OWNED(global, cuLibraryGetManaged, 2, library),
    OWNED(kernel, cuLibraryGetKernel, 1, library),
    OWNED(module, cuLibraryGetModule, 1, library),
    OWNED(function, cuKernelGetFunction, 1, kernel),
    MAKES(texture, cuTexObjectCreate),
    MAKES(surface, cuSurfObjectCreate),
    MAKES(texture_reference, cuTexRefCreate),
    MAKES(external_memory, cuImportExternalMemory),
    MAKES(external_semaphore, cuImportExternalSemaphore),
    OWNED(mapped_buffer, cuExternalMemoryGetMappedBuffer, 1, external_memory),
    OWNED(mipmapped_array, cuExternalMemoryGetMappedMipmappedArray, 1, external_memory),
    MAKES(graphics_resource, cuGraphicsGLRegisterBuffer),
    MAKES(graphics_resource, cuGraphicsGLRegisterImage),
    MAKES(graphics_resource, cuGraphicsEGLRegisterImage),
    MAKES(graphics_resource, cuGraphicsVDPAURegisterVideoSurface),
    MAKES(graphics_resource, cuGraphicsVDPAURegisterOutputSurface),
    MAKES(green_context, cuGreenCtxCreate),
    OWNED(stream, cuGreenCtxStreamCreate, 1, green_context),
};

struct destroyer {
	const struct resource_type *type;
	enum entry entry;
};
#define DESTROYER(type, symbol)                     \
	{                                           \
		&object_type_##type, ENTRY_##symbol \
	}
static const struct destroyer destroyers[] = {
    DESTROYER(event, cuEventDestroy),
    DESTROYER(event, cuEventDestroy_v2),
    DESTROYER(stream, cuStreamDestroy),
    DESTROYER(stream, cuStreamDestroy_v2),
    DESTROYER(module, cuModuleUnload),
    DESTROYER(library, cuLibraryUnload),
    DESTROYER(graph, cuGraphDestroy),
    DESTROYER(graph_exec, cuGraphExecDestroy),
    DESTROYER(graph_node, cuGraphDestroyNode),
    DESTROYER(texture, cuTexObjectDestroy),
    DESTROYER(surface, cuSurfObjectDestroy),
    DESTROYER(texture_reference, cuTexRefDestroy),
    DESTROYER(external_memory, cuDestroyExternalMemory),
    DESTROYER(external_semaphore, cuDestroyExternalSemaphore),
    DESTROYER(graphics_resource, cuGraphicsUnregisterResource),
    DESTROYER(green_context, cuGreenCtxDestroy),
    DESTROYER(mapped_buffer, cuMemFree),
    DESTROYER(mapped_buffer, cuMemFree_v2),
    DESTROYER(mipmapped_array, cuMipmappedArrayDestroy),
};
#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

static const char *const names[] = {
#define FUNCTION(symbol, class, action) [ENTRY_##symbol] = #symbol,
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
};

static char nothing[BUFFER]; /* what parameters point to that no stand-in reads */

/* Any function takes as many parameters as it wants of these. */
static CUresult call(enum entry entry, const uint64_t *a)
{
	CUresult (*function)(uint64_t, ...) = (CUresult(*)(uint64_t, ...))shim_target[entry];

	return function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
	                a[12], a[13], a[14], a[15]);
}

static uint64_t create(const struct maker *m, uint64_t owner)
{
	uint64_t made = 0, arguments[ARGUMENTS];

	for (int i = 0; i < ARGUMENTS; i++)
		arguments[i] = (uintptr_t)nothing;
	if (m->owner)
		arguments[m->owner] = owner;
	if (m->type == &object_type_green_context)
		arguments[2] = 0; /* the device */
	arguments[m->out] = (uintptr_t)&made;
	if (call(m->entry, arguments) != CUDA_SUCCESS || !made)
		FAIL("%s: nothing was made", names[m->entry]);
	return made;
}

static CUresult destroy(enum entry entry, uint64_t object)
{
	uint64_t arguments[ARGUMENTS] = {object};

	return call(entry, arguments);
}

static size_t count(const struct resource_type *type)
{
	return registry_count(job_devices()->device[0].registry, type);
}

static void expect(const char *symbol, const char *when, const struct resource_type *type,
                   size_t expected)
{
	if (count(type) != expected)
		FAIL("%s, %s: %zu of type %s, expected %zu", symbol, when, count(type), type->name,
		     expected);
}

static const struct destroyer *destroyer_of(const struct resource_type *type)
{
	for (size_t i = 0; i < COUNT_OF(destroyers); i++) {
		if (destroyers[i].type == type)
			return &destroyers[i];
	}
	return NULL;
}

static const struct maker *maker_of(const struct resource_type *type)
{
	for (size_t i = 0; i < COUNT_OF(makers); i++) {
		if (makers[i].type == type)
			return &makers[i];
	}
	return NULL;
}

/* An owner and what owns it in turn: a library for a kernel. root: what to destroy in the end. */
static uint64_t create_owner(const struct maker *m, const struct resource_type **root,
                             uint64_t *root_handle)
{
	const struct maker *owner = maker_of(m->owner_type);
	uint64_t above = owner->owner ? create_owner(owner, root, root_handle) : 0;
	uint64_t made = create(owner, above);

	if (!owner->owner) {
		*root = owner->type;
		*root_handle = made;
	}
	return made;
}

static void check_maker(const struct maker *m)
{
	size_t before = count(m->type), all = count(NULL);
	const struct resource_type *root = NULL;
	uint64_t root_handle = 0, owner = m->owner ? create_owner(m, &root, &root_handle) : 0;
	size_t with_owner = count(m->type);
	uint64_t made;

	for (size_t i = 0; i < COUNT_OF(destroyers); i++) {
		const struct destroyer *d = &destroyers[i];

		if (d->type != m->type)
			continue;
		made = create(m, owner);
		expect(names[m->entry], "made", m->type, with_owner + 1);
		atomic_store(&refuses, 1);
		if (destroy(d->entry, made) == CUDA_SUCCESS)
			FAIL("%s: the driver's refusal was not passed on", names[d->entry]);
		atomic_store(&refuses, 0);
		expect(names[d->entry], "refused", m->type, with_owner + 1);
		destroy(d->entry, made);
		expect(names[d->entry], "destroyed", m->type, with_owner);
	}
	made = create(m, owner);
	expect(names[m->entry], "made last", m->type, with_owner + 1);
	if (root)
		destroy(destroyer_of(root)->entry, root_handle);
	else
		destroy(destroyer_of(m->type)->entry, made);
	expect(names[m->entry], "its owner destroyed", m->type, before);
	if (count(NULL) != all)
		FAIL("%s: %zu objects were left behind", names[m->entry], count(NULL) - all);
	printf("%s\n", names[m->entry]);
}

/* --- the end of a context --- */

static bool outlives_contexts(const struct resource_type *type)
{
	return type == &object_type_library || type == &object_type_kernel ||
	       type == &object_type_graph || type == &object_type_graph_node ||
	       type == &object_type_conditional || type == &object_type_green_context;
}

static void check_context(enum entry how)
{
	size_t before = count(NULL);
	CUcontext kept = current;
	int made = 0;

	current = (CUcontext)(uintptr_t)(atomic_fetch_add(&last_handle, 16) + 16);
	for (size_t i = 0; i < COUNT_OF(makers); i++) {
		if (!makers[i].owner && !outlives_contexts(makers[i].type)) {
			create(&makers[i], 0);
			made++;
		}
	}
	if (count(NULL) != before + (size_t)made + 1)
		FAIL("%s: %zu objects and a context, expected %d", names[how], count(NULL) - before,
		     made);
	destroy(how, HANDLE(current));
	current = kept;
	if (count(NULL) != before)
		FAIL("%s: %zu objects outlived their context", names[how], count(NULL) - before);
	printf("%s\n", names[how]);
}

/* The row and where the device stands in it. */
static const struct {
	enum entry entry;
	int device;
} context_makers[] = {
    {ENTRY_cuCtxCreate, 2},      {ENTRY_cuCtxCreate_v2, 2},      {ENTRY_cuCtxCreate_v3, 4},
    {ENTRY_cuCtxCreate_v4, 3},   {ENTRY_cuGLCtxCreate, 2},       {ENTRY_cuGLCtxCreate_v2, 2},
    {ENTRY_cuVDPAUCtxCreate, 2}, {ENTRY_cuVDPAUCtxCreate_v2, 2},
};

static CUcontext make_context(size_t i)
{
	uint64_t made = 0, arguments[ARGUMENTS] = {(uintptr_t)&made};

	call(context_makers[i].entry, arguments);
	return (CUcontext)(uintptr_t)made;
}

/* Made by any form, attached once more, and gone with the last detach or whichever destroy. */
static void check_context_rows(void)
{
	static const enum entry ends[] = {ENTRY_cuCtxDestroy, ENTRY_cuCtxDestroy_v2,
	                                  ENTRY_cuCtxDetach};
	size_t before = count(&object_type_context), events = count(&object_type_event);
	CUcontext kept = current;

	for (size_t i = 0; i < COUNT_OF(context_makers); i++) {
		for (size_t j = 0; j < COUNT_OF(ends); j++) {
			CUcontext attached = current = make_context(i);
			uint64_t arguments[ARGUMENTS] = {(uintptr_t)&attached};

			expect(names[context_makers[i].entry], "made", &object_type_context,
			       before + 1);
			create(&makers[0], 0);
			call(ENTRY_cuCtxAttach, arguments);
			destroy(ENTRY_cuCtxDetach, HANDLE(attached));
			expect("cuCtxDetach", "not the last", &object_type_context, before + 1);
			expect("cuCtxDetach", "not the last", &object_type_event, events + 1);
			shim_real[ENTRY_cuCtxDetach] = (void *)destroy_context;
			destroy(ends[j], HANDLE(attached));
			shim_real[ENTRY_cuCtxDetach] = (void *)succeed;
			expect(names[ends[j]], "the last", &object_type_context, before);
			expect(names[ends[j]], "the last", &object_type_event, events);
		}
		printf("%s\n", names[context_makers[i].entry]);
	}
	current = kept;
	printf("cuCtxAttach\ncuCtxDetach\n");
}

static void check_peer_access(void)
{
	size_t before = count(&object_type_peer_access);
	CUcontext kept = current, peer = make_context(0);

	for (int i = 0; i < 2; i++) {
		destroy(ENTRY_cuCtxEnablePeerAccess, HANDLE(peer));
		expect("cuCtxEnablePeerAccess", "enabled", &object_type_peer_access, before + 1);
		destroy(i == 0 ? ENTRY_cuCtxDisablePeerAccess : ENTRY_cuCtxDestroy_v2,
		        HANDLE(peer));
		expect("cuCtxDisablePeerAccess", "over", &object_type_peer_access, before);
	}
	current = kept;
	printf("cuCtxEnablePeerAccess\ncuCtxDisablePeerAccess\n");
}

/* --- user objects: the driver alone knows which reference is the last --- */

static CUhostFn given;
static void *given_cookie;

static CUresult make_user_object(uint64_t *out, void *cookie, CUhostFn destructor)
{
	given = destructor;
	given_cookie = cookie;
	return make_0(out);
}

static void CUDA_CB users_destructor(void *cookie)
{
	*(int *)cookie += 1;
}

static void check_user_object(void)
{
	size_t before = count(&object_type_user_object);
	int called = 0;
	CUuserObject object = NULL;

	((__typeof__(&cuUserObjectCreate))shim_target[ENTRY_cuUserObjectCreate])(
	    &object, &called, users_destructor, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	destroy(ENTRY_cuUserObjectRetain, HANDLE(object));
	destroy(ENTRY_cuUserObjectRelease, HANDLE(object));
	expect("cuUserObjectRelease", "not the last", &object_type_user_object, before + 1);
	given(given_cookie);
	expect("cuUserObjectCreate", "destroyed", &object_type_user_object, before);
	if (called != 1)
		FAIL("cuUserObjectCreate: the program's destructor was called %d times", called);
	printf("cuUserObjectCreate\ncuUserObjectRetain\ncuUserObjectRelease\n");
}

/* --- a million objects --- */

static void work(int objects)
{
	uint64_t owner[COUNT_OF(makers)] = {0};

	for (int done = 0; done < objects;) {
		for (size_t i = 0; i < COUNT_OF(makers); i++) {
			const struct maker *m = &makers[i];
			const struct destroyer *d = destroyer_of(m->type);
			uint64_t above = 0;

			if (!d)
				continue; /* has no end of its own */
			for (size_t j = 0; m->owner && j < i && !above; j++) {
				if (makers[j].type == m->owner_type)
					above = owner[j];
			}
			if (m->owner && !above)
				continue;
			owner[i] = create(m, above);
			done++;
		}
		for (size_t i = COUNT_OF(makers); i-- > 0;) {
			if (owner[i])
				destroy(destroyer_of(makers[i].type)->entry, owner[i]);
			owner[i] = 0;
		}
	}
}

static void *soak(void *cookie)
{
	current = (CUcontext)0xc0de;
	work(*(int *)cookie);
	return NULL;
}

static size_t bytes_in_use(int objects)
{
	pthread_t thread[THREADS];
	struct mallinfo2 info;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, soak, &objects);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void check_soak(void)
{
	size_t objects = count(NULL), before, after;

	before = bytes_in_use(WARM);
	after = bytes_in_use(PER_THREAD_OBJECTS);
	if (count(NULL) > objects + 1)
		FAIL("after the soak %zu objects are left", count(NULL) - objects);
	if (after > before + before / 4 + 65536)
		FAIL("the soak grew the heap from %zu to %zu bytes", before, after);
	printf("%d objects: heap %zu, then %zu bytes\n", THREADS * PER_THREAD_OBJECTS, before,
	       after);
}

/* --- */

static void stand_in(void)
{
	driver.cuCtxGetCurrent = current_context;
	driver.cuCtxGetDevice = device_zero;
	driver.cuDeviceGetCount = one;
	for (size_t i = 0; i < COUNT_OF(makers); i++)
		shim_real[makers[i].entry] = makers[i].out ? (void *)make_1 : (void *)make_0;
	for (size_t i = 0; i < COUNT_OF(destroyers); i++)
		shim_real[destroyers[i].entry] = (void *)succeed;
	for (size_t i = 0; i < COUNT_OF(context_makers); i++)
		shim_real[context_makers[i].entry] = (void *)make_0;
	shim_real[ENTRY_cuCtxAttach] = shim_real[ENTRY_cuCtxDetach] = (void *)succeed;
	shim_real[ENTRY_cuCtxEnablePeerAccess] = (void *)succeed;
	shim_real[ENTRY_cuCtxDisablePeerAccess] = (void *)succeed;
	shim_real[ENTRY_cuUserObjectCreate] = (void *)make_user_object;
	shim_real[ENTRY_cuUserObjectRetain] = shim_real[ENTRY_cuUserObjectRelease] =
	    (void *)succeed;
	shim_real[ENTRY_cuCtxDestroy] = shim_real[ENTRY_cuCtxDestroy_v2] = (void *)destroy_context;
	driver.cuMemFree_v2 = (__typeof__(driver.cuMemFree_v2))(void *)succeed;
}

int main(void)
{
	const char *build = getenv("BUILD");
	char name[256], path[PATH_MAX];

	snprintf(name, sizeof(name), "%s/tests/unit/recorder.so", build ? build : "build");
	if (!realpath(name, path)) {
		perror(name);
		return EXIT_FAILURE;
	}
	setenv("SPILLWAY_DRIVER", path, 1);
	setenv("SPILLWAY_JOB", "tracking", 1);
	shim_attach(NULL);
	shim_inside[1].size = 0; /* this program's code and the shim's are one */
	stand_in();
	if (call(ENTRY_cuInit, (const uint64_t[ARGUMENTS]){0}) != CUDA_SUCCESS ||
	    !job_is_active()) {
		printf("the job did not begin\n");
		return EXIT_FAILURE;
	}
	current = (CUcontext)0xc0de;
	create(&makers[0], 0); /* the context is met */
	for (size_t i = 0; i < COUNT_OF(makers); i++)
		check_maker(&makers[i]);
	for (size_t i = 0; i < COUNT_OF(destroyers); i++)
		printf("%s\n", names[destroyers[i].entry]);
	check_context(ENTRY_cuCtxDestroy);
	check_context(ENTRY_cuCtxDestroy_v2);
	check_context_rows();
	check_peer_access();
	check_user_object();
	check_soak();
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
