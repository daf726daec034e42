/*
 * Every row marked `track`: what it hands out is in the books until it is destroyed, by whatever version of the
 * call, or goes with its owner or its context; a refused destruction changes nothing. A line for each row that
 * creates, on which all that is run; the rows that change or ask are in tracking_changes.c. Fails when a row
 * marked `track` is in neither.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tracking.h"

enum { ENDS = 6, DEEP = 4, GIVEN = 1, STAYS = 2, FREE = 4, SAME = 8, COUNTED = 16, UNIQUE = 32 };

/*
 * GIVEN    the object is an argument, and not handed out
 * STAYS    it does not go with its owner
 * FREE     it does not go with the context it was made in
 * SAME     handed out again it is the same, in one owner or context
 * COUNTED  likewise, and each time is to be ended
 * UNIQUE   the driver gives no other
 */
struct line {
	enum entry create;
	int at; /* the parameter with the object */
	const char *type;
	int owner; /* the line that makes what it goes with; 0: nobody */
	int owner_at;
	unsigned int flags;
	struct argument with[2]; /* other arguments that matter, where not all are 0 */
	int place_at;            /* parameter that points to a CUmemLocation, from 1 */
	size_t place;            /* so many bytes into it */
	int out_size;
	enum entry end[ENDS]; /* what destroys it, its handle being the first argument */
};

#define LINE(symbol, parameter, name) .create = ENTRY_##symbol, .at = (parameter), .type = (name)
#define OWNER(symbol, parameter)      .owner = ENTRY_##symbol, .owner_at = (parameter)
#define ARGUMENT_IS(parameter, value) .with = {{parameter, value}}
#define PLACE(parameter, bytes)       .place_at = (parameter) + 1, .place = (bytes)
#define E(symbol)                     ENTRY_##symbol

#define CONTEXT_ENDS .flags = FREE, .end = {E(cuCtxDestroy), E(cuCtxDestroy_v2), E(cuCtxDetach)}
#define EVENT_ENDS   .end = {E(cuEventDestroy), E(cuEventDestroy_v2)}
#define STREAM_ENDS  .end = {E(cuStreamDestroy), E(cuStreamDestroy_v2)}
#define ALLOCATION_ENDS \
	.end = {E(cuMemFree_v2), E(cuMemFree), E(cuMemFreeAsync), E(cuMemFreeAsync_ptsz)}
#define NODE(symbol)                                                    \
	{                                                               \
		LINE(symbol, 0, "graph_node"), OWNER(cuGraphCreate, 1), \
		    .flags = FREE,                                      \
		    .end = { E(cuGraphDestroyNode) }                    \
	}
#define EXEC(symbol)                                                            \
	{                                                                       \
		LINE(symbol, 0, "graph_exec"), .end = { E(cuGraphExecDestroy) } \
	}
#define GRAPHICS(symbol)                                                                         \
	{                                                                                        \
		LINE(symbol, 0, "graphics_resource"), .end = { E(cuGraphicsUnregisterResource) } \
	}
#define MODULE(symbol)                                                  \
	{                                                               \
		LINE(symbol, 0, "module"), .end = { E(cuModuleUnload) } \
	}
#define LIBRARY(symbol)                                                                  \
	{                                                                                \
		LINE(symbol, 0, "library"), .flags = FREE, .end = { E(cuLibraryUnload) } \
	}

static const struct line lines[] = {
    {LINE(cuArrayCreate, 0, "array"), .end = {E(cuArrayDestroy)}},
    {LINE(cuArrayCreate_v2, 0, "array"), .end = {E(cuArrayDestroy)}},
    {LINE(cuArray3DCreate, 0, "array"), .end = {E(cuArrayDestroy)}},
    {LINE(cuArray3DCreate_v2, 0, "array"), .end = {E(cuArrayDestroy)}},
    {LINE(cuMipmappedArrayCreate, 0, "array"), .end = {E(cuMipmappedArrayDestroy)}},

    {LINE(cuCtxCreate, 0, "context"), ARGUMENT_IS(2, 0), CONTEXT_ENDS},
    {LINE(cuCtxCreate_v2, 0, "context"), ARGUMENT_IS(2, 0), CONTEXT_ENDS},
    {LINE(cuCtxCreate_v3, 0, "context"), ARGUMENT_IS(4, 0), CONTEXT_ENDS},
    {LINE(cuCtxCreate_v4, 0, "context"), ARGUMENT_IS(3, 0), CONTEXT_ENDS},
    {LINE(cuGLCtxCreate, 0, "context"), ARGUMENT_IS(2, 0), CONTEXT_ENDS},
    {LINE(cuGLCtxCreate_v2, 0, "context"), ARGUMENT_IS(2, 0), CONTEXT_ENDS},
    {LINE(cuVDPAUCtxCreate, 0, "context"), ARGUMENT_IS(2, 0), CONTEXT_ENDS},
    {LINE(cuVDPAUCtxCreate_v2, 0, "context"), ARGUMENT_IS(2, 0), CONTEXT_ENDS},
    {LINE(cuCtxEnablePeerAccess, 0, "peer_access"), .flags = GIVEN,
     .end = {E(cuCtxDisablePeerAccess)}},
    {LINE(cuGreenCtxCreate, 0, "green_context"), ARGUMENT_IS(2, 0), .flags = FREE,
     .end = {E(cuGreenCtxDestroy)}},
    {LINE(cuCtxFromGreenCtx, 0, "context"), OWNER(cuGreenCtxCreate, 1), .flags = FREE | UNIQUE},
    {LINE(cuGreenCtxStreamCreate, 0, "stream"), OWNER(cuGreenCtxCreate, 1), STREAM_ENDS},

    {LINE(cuStreamCreate, 0, "stream"), STREAM_ENDS},
    {LINE(cuStreamCreateWithPriority, 0, "stream"), STREAM_ENDS},
    {LINE(cuEventCreate, 0, "event"), EVENT_ENDS},
    {LINE(cuIpcOpenEventHandle, 0, "event"), EVENT_ENDS},
    {LINE(cuIpcGetEventHandle, 1, "ipc_event"), OWNER(cuEventCreate, 1), .flags = GIVEN | UNIQUE},

    MODULE(cuModuleLoad),
    MODULE(cuModuleLoadData),
    MODULE(cuModuleLoadDataEx),
    MODULE(cuModuleLoadFatBinary),
    {LINE(cuModuleGetFunction, 0, "function"), OWNER(cuModuleLoadData, 1)},
    {LINE(cuModuleGetGlobal, 0, "global"), OWNER(cuModuleLoad, 2), .out_size = 4},
    {LINE(cuModuleGetGlobal_v2, 0, "global"), OWNER(cuModuleLoadFatBinary, 2)},
    LIBRARY(cuLibraryLoadData),
    LIBRARY(cuLibraryLoadFromFile),
    {LINE(cuLibraryGetModule, 0, "module"), OWNER(cuLibraryLoadData, 1)},
    {LINE(cuLibraryGetKernel, 0, "kernel"), OWNER(cuLibraryLoadFromFile, 1), .flags = FREE},
    {LINE(cuLibraryGetGlobal, 0, "global"), OWNER(cuLibraryLoadData, 2)},
    {LINE(cuLibraryGetManaged, 0, "global"), OWNER(cuLibraryLoadData, 2)},
    {LINE(cuKernelGetFunction, 0, "function"), OWNER(cuLibraryGetKernel, 1)},

    {LINE(cuGraphCreate, 0, "graph"), .flags = FREE, .end = {E(cuGraphDestroy)}},
    {LINE(cuGraphClone, 0, "graph"), .flags = FREE, .end = {E(cuGraphDestroy)}},
    {LINE(cuStreamEndCapture, 1, "graph"), .flags = FREE | SAME, .end = {E(cuGraphDestroy)}},
    {LINE(cuStreamEndCapture_ptsz, 1, "graph"), .flags = FREE | SAME, .end = {E(cuGraphDestroy)}},
    {LINE(cuGraphConditionalHandleCreate, 0, "conditional"), OWNER(cuGraphCreate, 1),
     .flags = FREE},
    NODE(cuGraphAddBatchMemOpNode),
    NODE(cuGraphAddChildGraphNode),
    NODE(cuGraphAddHostNode),
    NODE(cuGraphAddKernelNode),
    NODE(cuGraphAddKernelNode_v2),
    NODE(cuGraphAddMemAllocNode),
    NODE(cuGraphAddMemFreeNode),
    NODE(cuGraphAddMemcpyNode),
    NODE(cuGraphAddMemsetNode),
    NODE(cuGraphAddNode),
    NODE(cuGraphAddNode_v2),
    EXEC(cuGraphInstantiate),
    EXEC(cuGraphInstantiate_v2),
    EXEC(cuGraphInstantiateWithFlags),
    EXEC(cuGraphInstantiateWithParams),
    EXEC(cuGraphInstantiateWithParams_ptsz),

    {LINE(cuTexObjectCreate, 0, "texture"), .end = {E(cuTexObjectDestroy)}},
    {LINE(cuSurfObjectCreate, 0, "surface"), .end = {E(cuSurfObjectDestroy)}},
    {LINE(cuTexRefCreate, 0, "texture_reference"), .end = {E(cuTexRefDestroy)}},
    {LINE(cuImportExternalMemory, 0, "external_memory"), .end = {E(cuDestroyExternalMemory)}},
    {LINE(cuExternalMemoryGetMappedBuffer, 0, "mapped_buffer"), OWNER(cuImportExternalMemory, 1),
     .end = {E(cuMemFree_v2), E(cuMemFree)}},
    {LINE(cuExternalMemoryGetMappedMipmappedArray, 0, "mipmapped_array"),
     OWNER(cuImportExternalMemory, 1), .end = {E(cuMipmappedArrayDestroy)}},
    {LINE(cuImportExternalSemaphore, 0, "external_semaphore"),
     .end = {E(cuDestroyExternalSemaphore)}},
    GRAPHICS(cuGraphicsGLRegisterBuffer),
    GRAPHICS(cuGraphicsGLRegisterImage),
    GRAPHICS(cuGraphicsEGLRegisterImage),
    GRAPHICS(cuGraphicsVDPAURegisterOutputSurface),
    GRAPHICS(cuGraphicsVDPAURegisterVideoSurface),

    {LINE(cuMemAlloc, 0, "allocation"), .out_size = 4, ALLOCATION_ENDS},
    {LINE(cuMemAlloc_v2, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocPitch, 0, "allocation"), .out_size = 4, ARGUMENT_IS(4, 8), ALLOCATION_ENDS},
    {LINE(cuMemAllocPitch_v2, 0, "allocation"), ARGUMENT_IS(4, 8), ALLOCATION_ENDS},
    {LINE(cuMemAllocManaged, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocAsync, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocAsync_ptsz, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocFromPoolAsync, 0, "allocation"), OWNER(cuMemPoolCreate, 2), .flags = STAYS,
     ALLOCATION_ENDS},
    {LINE(cuMemAllocFromPoolAsync_ptsz, 0, "allocation"), OWNER(cuMemPoolCreate, 2), .flags = STAYS,
     ALLOCATION_ENDS},
    {LINE(cuMemAllocHost, 0, "host_allocation"), .end = {E(cuMemFreeHost)}},
    {LINE(cuMemAllocHost_v2, 0, "host_allocation"), .end = {E(cuMemFreeHost)}},
    {LINE(cuMemHostAlloc, 0, "host_allocation"), .end = {E(cuMemFreeHost)}},
    {LINE(cuMemHostRegister, 0, "host_allocation"), .flags = GIVEN,
     .end = {E(cuMemHostUnregister)}},
    {LINE(cuMemHostRegister_v2, 0, "host_allocation"), .flags = GIVEN,
     .end = {E(cuMemHostUnregister)}},
    {LINE(cuMemAddressReserve, 0, "reservation"), .end = {E(cuMemAddressFree)}},
    {LINE(cuIpcOpenMemHandle, 0, "ipc_mapping"), .flags = COUNTED, .end = {E(cuIpcCloseMemHandle)}},
    {LINE(cuIpcOpenMemHandle_v2, 0, "ipc_mapping"), .flags = COUNTED,
     .end = {E(cuIpcCloseMemHandle)}},
    {LINE(cuMemPoolImportFromShareableHandle, 0, "imported_memory"), .flags = COUNTED,
     .end = {E(cuMemPoolDestroy)}},
    {LINE(cuMemPoolImportPointer, 0, "imported_memory"), .flags = COUNTED, ALLOCATION_ENDS},
    {LINE(cuMemPoolCreate, 0, "pool"), PLACE(1, offsetof(CUmemPoolProps, location)),
     .flags = FREE | SAME, .end = {E(cuMemPoolDestroy)}},
    {LINE(cuDeviceGetDefaultMemPool, 0, "pool"), ARGUMENT_IS(1, 0), .flags = FREE | SAME,
     .end = {E(cuMemPoolDestroy)}},
    {LINE(cuDeviceGetMemPool, 0, "pool"), ARGUMENT_IS(1, 0), .flags = FREE | SAME,
     .end = {E(cuMemPoolDestroy)}},
    {LINE(cuDeviceSetMemPool, 1, "pool"), ARGUMENT_IS(0, 0), .flags = FREE | SAME | GIVEN,
     .end = {E(cuMemPoolDestroy)}},
    {LINE(cuMemGetDefaultMemPool, 0, "pool"), PLACE(1, 0), .flags = FREE | SAME,
     .end = {E(cuMemPoolDestroy)}},
    {LINE(cuMemGetMemPool, 0, "pool"), PLACE(1, 0), .flags = FREE | SAME,
     .end = {E(cuMemPoolDestroy)}},
    {LINE(cuMemSetMemPool, 2, "pool"), PLACE(0, 0), .flags = FREE | SAME | GIVEN,
     .end = {E(cuMemPoolDestroy)}},
};
enum { LINES = sizeof(lines) / sizeof(*lines) };

static const struct line *line_of(int create)
{
	for (size_t i = 0; i < LINES; i++) {
		if ((int)lines[i].create == create)
			return &lines[i];
	}
	return NULL;
}

/* --- making and ending --- */

/* The object as the line makes it; its handle is `handle` where that is not 0. *result NULL: it must succeed. */
static uint64_t make_one(const struct line *l, uint64_t owner, uint64_t handle, CUresult *result)
{
	static union {
		uint64_t words[512];
		unsigned char bytes[4096];
	} properties;
	const CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	struct argument arguments[5];
	uint64_t out = 0;
	size_t count = 0;
	CUresult answer;

	if (!handle && l->flags & GIVEN)
		handle = l->owner ? owner : new_handle();
	if (!handle && !(l->flags & UNIQUE))
		handle = new_handle();
	for (size_t i = 0; i < 2; i++) {
		if (i == 0 || l->with[i].at || l->with[i].value)
			arguments[count++] = l->with[i];
	}
	if (l->place_at) {
		memset(&properties, 0, sizeof(properties));
		memcpy(properties.bytes + l->place, &place, sizeof(place));
		arguments[count++] = (struct argument){l->place_at - 1, WORD(&properties)};
	}
	if (l->owner)
		arguments[count++] = (struct argument){l->owner_at, owner};
	arguments[count++] = (struct argument){l->at, l->flags & GIVEN ? handle : WORD(&out)};
	atomic_store(&giver->again, handle);
	if (strcmp(l->type, "pool") == 0)
		atomic_store(&giver->pool, handle);
	answer = call_row(l->create, arguments, count);
	atomic_store(&giver->again, 0);
	atomic_store(&giver->pool, GIVER_POOL);
	was_exercised[l->create] = true;
	if (result)
		*result = answer;
	else
		CHECK(answer == CUDA_SUCCESS, "%s: %d", row_name[l->create], answer);
	return l->flags & GIVEN ? handle : out;
}

static CUresult end_one(enum entry end, uint64_t handle)
{
	was_exercised[end] = true;
	return call_row(end, &(struct argument){0, handle}, 1);
}

/* An object after all that it goes with: [0] goes with nobody. */
struct chain {
	int length;
	const struct line *line[DEEP];
	uint64_t handle[DEEP];
};

static void make_owners(struct chain *chain, const struct line *l)
{
	const struct line *owner = l->owner ? line_of(l->owner) : NULL;

	if (!owner)
		return;
	make_owners(chain, owner);
	chain->line[chain->length] = owner;
	chain->handle[chain->length] =
	    make_one(owner, chain->length ? chain->handle[chain->length - 1] : 0, 0, NULL);
	chain->length++;
}

static uint64_t owner_in(const struct chain *chain)
{
	return chain->length ? chain->handle[chain->length - 1] : 0;
}

static struct chain make_chain(const struct line *l)
{
	struct chain chain = {0};

	make_owners(&chain, l);
	chain.handle[chain.length] = make_one(l, owner_in(&chain), 0, NULL);
	chain.line[chain.length++] = l;
	return chain;
}

/* The object, if it is not ended yet, and what it goes with. */
static void end_chain(const struct chain *chain, bool is_ended)
{
	const struct line *l = chain->line[chain->length - 1];

	if (!is_ended && l->end[0])
		end_one(l->end[0], chain->handle[chain->length - 1]);
	if (chain->length > 1)
		end_one(chain->line[0]->end[0], chain->handle[0]);
}

#define EXPECT(l, number, ...)                                                                  \
	do {                                                                                    \
		size_t found_ = books((l)->type), expected_ = (number);                         \
		if (found_ != expected_)                                                        \
			FAIL("%s: %zu of type %s in the books, not %zu: %s",                    \
			     row_name[(l)->create], found_, (l)->type, expected_, __VA_ARGS__); \
	} while (0)

/* --- what is checked of each line --- */

static void check_refused_and_null(const struct line *l)
{
	size_t before = books(l->type);
	struct chain owners = {0};
	struct argument arguments[3];
	CUresult result;

	make_owners(&owners, l);
	atomic_store(&giver->row[l->create].answer, CUDA_ERROR_UNKNOWN);
	make_one(l, owner_in(&owners), 0, &result);
	atomic_store(&giver->row[l->create].answer, CUDA_SUCCESS);
	CHECK(result == CUDA_ERROR_UNKNOWN, "%s: the refusal became %d", row_name[l->create],
	      result);
	EXPECT(l, before, "the driver refused to create");
	if (!(l->flags & GIVEN)) {
		arguments[0] = l->with[0];
		arguments[1] = (struct argument){l->owner_at, owner_in(&owners)};
		arguments[2] = (struct argument){l->at, 0};
		call_row(l->create, arguments, 3);
		EXPECT(l, before, "created through a NULL parameter");
	}
	if (owners.length)
		end_one(owners.line[0]->end[0], owners.handle[0]);
	EXPECT(l, before, "afterwards");
}

/* By each call that does, in the context it was made in, and in another. */
static void check_ends(const struct line *l)
{
	size_t before = books(l->type);

	for (int i = 0; i < ENDS && l->end[i]; i++) {
		for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
			struct chain chain = make_chain(l);
			uint64_t object = chain.handle[chain.length - 1];
			size_t with = before + 1;

			EXPECT(l, with, "created");
			CHECK(in_books(l->type, object) != NULL, "%s: not under its address",
			      row_name[l->create]);
			if (elsewhere && strcmp(l->type, "context") != 0)
				new_context();
			atomic_store(&giver->row[l->end[i]].answer, CUDA_ERROR_UNKNOWN);
			CHECK(end_one(l->end[i], object) == CUDA_ERROR_UNKNOWN,
			      "%s: the refusal is lost", row_name[l->end[i]]);
			atomic_store(&giver->row[l->end[i]].answer, CUDA_SUCCESS);
			EXPECT(l, with, "the driver refused to destroy");
			CHECK(end_one(l->end[i], object) == CUDA_SUCCESS, "%s failed",
			      row_name[l->end[i]]);
			if (elsewhere && strcmp(l->type, "context") != 0) {
				CUcontext other;

				BEHIND(cuCtxGetCurrent, &other);
				end_one(ENTRY_cuCtxDestroy_v2, WORD(other));
			}
			EXPECT(l, before, row_name[l->end[i]]);
			end_chain(&chain, true);
		}
	}
	EXPECT(l, before, "afterwards");
}

/* The driver gives an address that it gave before. */
static void check_again(const struct line *l)
{
	size_t before = books(l->type);
	struct chain chain, other = {0};
	uint64_t object, owner;
	bool same = l->owner ? !(l->flags & STAYS) : (l->flags & (SAME | COUNTED)) != 0;
	const void *first;

	if (l->flags & UNIQUE)
		return;
	chain = make_chain(l);
	object = chain.handle[chain.length - 1];
	owner = chain.length > 1 ? chain.handle[chain.length - 2] : 0;
	first = in_books(l->type, object);
	make_one(l, owner, object, NULL);
	EXPECT(l, before + 1, "handed out twice");
	if (same)
		CHECK(in_books(l->type, object) == first, "%s: handed out twice, not the same",
		      row_name[l->create]);
	if (l->flags & COUNTED) {
		end_one(l->end[0], object);
		EXPECT(l, before + 1, "handed out twice, ended once");
	}
	if (l->owner && same) {
		make_owners(&other, l);
		make_one(l, owner_in(&other), object, NULL);
		EXPECT(l, before + 1, "handed out by another owner");
		end_one(chain.line[0]->end[0], chain.handle[0]);
		EXPECT(l, before + 1, "its first owner is gone");
		end_one(other.line[0]->end[0], other.handle[0]);
	} else {
		end_chain(&chain, false);
	}
	EXPECT(l, before, "handed out twice, then ended");
}

static void check_owners(const struct line *l)
{
	size_t before = books(l->type);
	struct chain shape = make_chain(l);

	end_chain(&shape, false);
	for (int depth = 0; depth < shape.length - 1; depth++) {
		for (int i = 0; i < ENDS && shape.line[depth]->end[i]; i++) {
			struct chain chain = make_chain(l);
			bool stays = (l->flags & STAYS) != 0;

			end_one(shape.line[depth]->end[i], chain.handle[depth]);
			EXPECT(l, before + stays, row_name[shape.line[depth]->end[i]]);
			if (stays)
				end_one(l->end[0], chain.handle[chain.length - 1]);
			EXPECT(l, before, "afterwards");
		}
	}
}

static void check_context_ends(const struct line *l)
{
	static const enum entry ends[] = {ENTRY_cuCtxDestroy, ENTRY_cuCtxDestroy_v2,
	                                  ENTRY_cuCtxDetach};
	size_t before = books(l->type);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		CUcontext context = new_context();
		struct chain chain = make_chain(l);
		bool stays = (l->flags & FREE) != 0;

		end_one(ends[i], WORD(context));
		EXPECT(l, before + stays, row_name[ends[i]]);
		if (chain.line[0]->flags & FREE)
			end_chain(&chain, !stays);
		EXPECT(l, before, "its context is gone");
	}
}

static void check_line(const struct line *l)
{
	int before = failures;
	size_t all = books(NULL);

	check_refused_and_null(l);
	if (failures == before)
		check_ends(l);
	if (failures == before)
		check_again(l);
	if (failures == before)
		check_owners(l);
	if (failures == before)
		check_context_ends(l);
	CHECK(failures > before || books(NULL) == all,
	      "%s: %zu objects of all types in the books, not %zu: afterwards", row_name[l->create],
	      books(NULL), all);
}

static void check_inactive(void)
{
	CUcontext context;

	BEHIND(cuCtxCreate_v2, &context, 0, 0);
	for (size_t i = 0; i < LINES; i++) {
		struct chain chain = make_chain(&lines[i]);

		end_chain(&chain, false);
	}
	BEHIND(cuCtxDestroy_v2, context);
	memset(was_exercised, 0, sizeof(was_exercised));
}

__attribute__((unused)) static void check_coverage(void)
{
	for (int i = 0; i < ENTRY_COUNT; i++)
		CHECK(!strstr(row_action[i] ? row_action[i] : "", "track") || was_exercised[i],
		      "%s: marked track, and not tested", row_name[i]);
}

int main(void)
{
	size_t leaked;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!open_driver())
		return EXIT_FAILURE;
	for (size_t i = 0; i < LINES; i++) {
		giver->row[lines[i].create].out =
		    (signed char)(lines[i].flags & GIVEN ? 0 : lines[i].at + 1);
		giver->row[lines[i].create].size = (signed char)lines[i].out_size;
	}
	check_inactive();
	begin_job();
	CHECK(books(NULL) == 0, "%zu objects from before cuInit are in the books", books(NULL));
	new_context();
	CALL(cuDeviceGetMemPool, {0, WORD(&(CUmemoryPool){0})}, {1, 0});
	leaked = books(NULL);
	for (size_t i = 0; i < LINES; i++)
		check_line(&lines[i]);
	check_changes();
	CHECK(books(NULL) == leaked, "%zu objects in the books at the end, %zu at the beginning",
	      books(NULL), leaked);
	printf("%d rows that create; %d failures\n", LINES, failures);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
