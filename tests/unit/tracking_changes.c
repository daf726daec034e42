/* SPDX-License-Identifier: MIT */
/* The rows that change or query the books. The subject stands above each check. */
#include "tests/unit/tracking.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "core/budget/in_use.h"
#include "core/cuda/capture.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/uses/image.h"
#include "core/memory/uses/measured.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))
#define MIB             ((uint64_t)1 << 20)

#define EXPECT(type, number)                                                              \
	do {                                                                              \
		size_t found_ = books(type), expected_ = (number);                        \
		CHECK(found_ == expected_, "%s:%d: %zu of type %s in the books, not %zu", \
		      __func__, __LINE__, found_, type, expected_);                       \
	} while (0)
#define TRUE(condition) CHECK(condition, "%s:%d: not so: %s", __func__, __LINE__, #condition)

static CUresult call_one(enum entry entry, uint64_t first)
{
	was_exercised[entry] = true;
	return call_row(entry, &(struct argument){0, first}, 1);
}

static void refuse(enum entry entry, bool refuses)
{
	atomic_store(&giver->row[entry].answer, refuses ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
}

/* --- contexts --- */

/*
 * A context made behind our back is met when it becomes current, and not when the driver refuses
 * that.
 */
static void check_current(void)
{
	static const enum entry rows[] = {ENTRY_cuCtxPushCurrent, ENTRY_cuCtxPushCurrent_v2,
	                                  ENTRY_cuCtxSetCurrent, ENTRY_cuCtxPopCurrent,
	                                  ENTRY_cuCtxPopCurrent_v2};
	size_t before = books("context");
	CUcontext base, context, popped;

	BEHIND(cuCtxGetCurrent, &base);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		bool pops = i >= 3;

		BEHIND(cuCtxCreate_v2, &context, 0, 0);
		if (!pops)
			BEHIND(cuCtxPopCurrent_v2, &popped);
		if (rows[i] != ENTRY_cuCtxPushCurrent && rows[i] != ENTRY_cuCtxPushCurrent_v2)
			BEHIND(cuCtxPushCurrent_v2, base);
		EXPECT("context", before);
		refuse(rows[i], true);
		call_one(rows[i], pops ? WORD(&popped) : WORD(context));
		refuse(rows[i], false);
		EXPECT("context", before);
		TRUE(call_one(rows[i], pops ? WORD(&popped) : WORD(context)) == CUDA_SUCCESS);
		EXPECT("context", before + 1);
		TRUE(in_books("context", WORD(context)) != 0);
		call_one(ENTRY_cuCtxDestroy_v2, WORD(context));
		EXPECT("context", before);
		BEHIND(cuCtxGetCurrent, &popped);
		TRUE(popped == base);
	}
}

/* Attached contexts, and what is in them, end with the last detach alone, or with any destroy. */
static void check_attach(void)
{
	static const enum entry ends[] = {ENTRY_cuCtxDetach, ENTRY_cuCtxDestroy,
	                                  ENTRY_cuCtxDestroy_v2};
	size_t contexts = books("context"), events = books("event");

	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		CUcontext context = new_context(), attached = NULL;
		CUevent event;

		CALL(cuEventCreate, {0, WORD(&event)});
		CALL(cuCtxAttach, {0, WORD(&attached)});
		TRUE(attached == context);
		refuse(ENTRY_cuCtxAttach, true);
		CALL(cuCtxAttach, {0, WORD(&attached)});
		refuse(ENTRY_cuCtxAttach, false);
		refuse(ENTRY_cuCtxDetach, true);
		CALL(cuCtxDetach, {0, WORD(context)});
		refuse(ENTRY_cuCtxDetach, false);
		EXPECT("context", contexts + 1);
		CALL(cuCtxDetach, {0, WORD(context)});
		EXPECT("context", contexts + 1);
		EXPECT("event", events + 1);
		refuse(ends[i], true);
		call_one(ends[i], WORD(context));
		refuse(ends[i], false);
		EXPECT("event", events + 1);
		call_one(ends[i], WORD(context));
		EXPECT("context", contexts);
		EXPECT("event", events);
	}
}

/*
 * A device's own context is there from the first retain to the last release, or to a reset, and
 * with it what was made in it; although a thread has it current still.
 */
static void check_primary(void)
{
	static const struct {
		enum entry end;
		bool resets;
	} ends[] = {{ENTRY_cuDevicePrimaryCtxRelease, false},
	            {ENTRY_cuDevicePrimaryCtxRelease_v2, false},
	            {ENTRY_cuDevicePrimaryCtxReset, true},
	            {ENTRY_cuDevicePrimaryCtxReset_v2, true}};
	size_t contexts = books("context"), events = books("event");
	CUcontext primary = NULL, popped;
	CUevent event;

	refuse(ENTRY_cuDevicePrimaryCtxRetain, true);
	CALL(cuDevicePrimaryCtxRetain, {0, WORD(&primary)}, {1, 0});
	refuse(ENTRY_cuDevicePrimaryCtxRetain, false);
	EXPECT("context", contexts);
	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		CALL(cuDevicePrimaryCtxRetain, {0, WORD(&primary)}, {1, 0});
		CALL(cuDevicePrimaryCtxRetain, {0, WORD(&primary)}, {1, 0});
		EXPECT("context", contexts + 1);
		BEHIND(cuCtxPushCurrent_v2, primary);
		CALL(cuEventCreate, {0, WORD(&event)});
		if (!ends[i].resets) {
			call_one(ends[i].end, 0);
			EXPECT("context", contexts + 1);
		}
		/* By the other the shim itself gives back the reference with which it asks. */
		if (ends[i].end != ENTRY_cuDevicePrimaryCtxRelease_v2) {
			refuse(ends[i].end, true);
			call_one(ends[i].end, 0);
			refuse(ends[i].end, false);
		}
		EXPECT("event", events + 1);
		call_one(ends[i].end, 0);
		EXPECT("event", events);
		EXPECT("context", contexts);
		BEHIND(cuCtxPopCurrent_v2, &popped);
	}
}

/* Access to a context ends with that context, too. */
static void check_peer(void)
{
	size_t before = books("peer_access");
	CUcontext peer = new_context(), popped;

	BEHIND(cuCtxPopCurrent_v2, &popped);
	CALL(cuCtxEnablePeerAccess, {0, WORD(peer)});
	EXPECT("peer_access", before + 1);
	CALL(cuCtxDestroy_v2, {0, WORD(peer)});
	EXPECT("peer_access", before);
}

/* --- what makes Spillway quiet --- */

/*
 * While this process is locked or checkpointed; another's state is not ours. States 4 and 5 are new
 * in 13.4: the driver writes the memory or reads it, until the operation is said to be complete.
 */
static void check_checkpoints(void)
{
	static const int states[] = {CU_PROCESS_STATE_LOCKED,
	                             CU_PROCESS_STATE_CHECKPOINTED,
	                             CU_PROCESS_STATE_FAILED,
	                             4,
	                             5,
	                             99};
	static const enum entry begins[] = {ENTRY_cuCheckpointProcessLock,
	                                    ENTRY_cuCheckpointProcessCheckpoint,
	                                    ENTRY_cuCheckpointProcessRestore};
	CUprocessState state;
	int thread;

	for (size_t i = 0; i < COUNT_OF(begins); i++) {
		refuse(begins[i], true);
		call_one(begins[i], (uint64_t)getpid());
		refuse(begins[i], false);
		TRUE(!capture_is_active());
		call_one(begins[i], (uint64_t)getppid());
		TRUE(!capture_is_active());
		call_one(begins[i], (uint64_t)getpid());
		call_one(begins[i], (uint64_t)getpid());
		TRUE(capture_is_active());
		CALL(cuCheckpointProcessUnlock, {0, (uint64_t)getpid()});
		TRUE(!capture_is_active());
	}
	atomic_store(&giver->state, CU_PROCESS_STATE_LOCKED);
	CALL(cuCheckpointProcessGetState, {0, (uint64_t)getpid()}, {1, 0});
	TRUE(!capture_is_active());
	for (size_t i = 0; i < COUNT_OF(states); i++) {
		atomic_store(&giver->state, CU_PROCESS_STATE_RUNNING);
		CALL(cuCheckpointProcessGetState, {0, (uint64_t)getpid()}, {1, WORD(&state)});
		TRUE(!capture_is_active());
		atomic_store(&giver->state, states[i]);
		CALL(cuCheckpointProcessGetState, {0, (uint64_t)getpid()}, {1, WORD(&state)});
		TRUE((int)state == states[i]);
		TRUE(capture_is_active());
	}
	CALL(cuCheckpointProcessGetRestoreThreadId, {0, (uint64_t)getpid()}, {1, WORD(&thread)});
	CALL(cuCheckpointProcessGetRestoreThreadId, {0, (uint64_t)getpid()}, {1, 0});
	TRUE(capture_is_active());
	atomic_store(&giver->state, CU_PROCESS_STATE_RUNNING);
	CALL(cuCheckpointProcessGetState, {0, (uint64_t)getpid()}, {1, WORD(&state)});
	TRUE(!capture_is_active());
}

/*
 * From a capture's beginning to its end, or to the stream's; the graph is in the books then, once.
 */
static void check_captures(void)
{
	static const enum entry begins[] = {
	    ENTRY_cuStreamBeginCapture,          ENTRY_cuStreamBeginCapture_ptsz,
	    ENTRY_cuStreamBeginCapture_v2,       ENTRY_cuStreamBeginCapture_v2_ptsz,
	    ENTRY_cuStreamBeginCaptureToGraph,   ENTRY_cuStreamBeginCaptureToGraph_ptsz,
	    ENTRY_cuStreamBeginRecaptureToGraph, ENTRY_cuStreamBeginRecaptureToGraph_ptsz};
	size_t before = books("graph");

	for (size_t i = 0; i < COUNT_OF(begins); i++) {
		uint64_t stream = new_handle();
		bool per_thread = i % 2;
		CUgraph graph = NULL;
		enum entry ends =
		    per_thread ? ENTRY_cuStreamEndCapture_ptsz : ENTRY_cuStreamEndCapture;

		refuse(begins[i], true);
		call_one(begins[i], stream);
		refuse(begins[i], false);
		TRUE(!capture_is_active());
		call_one(begins[i], stream);
		TRUE(capture_is_active());
		refuse(ends, true);
		atomic_store(&giver->is_capturing, 1);
		call_one(ends, stream);
		TRUE(capture_is_active());
		atomic_store(&giver->is_capturing, 0);
		call_one(ends, stream);
		TRUE(!capture_is_active());
		refuse(ends, false);
		EXPECT("graph", before);

		call_one(begins[i], stream);
		if (per_thread)
			CALL(cuStreamEndCapture_ptsz, {0, stream}, {1, WORD(&graph)});
		else
			CALL(cuStreamEndCapture, {0, stream}, {1, WORD(&graph)});
		TRUE(!capture_is_active());
		EXPECT("graph", before + 1);
		CALL(cuGraphDestroy, {0, WORD(graph)});
		EXPECT("graph", before);
		call_one(begins[i], stream);
		refuse(ENTRY_cuStreamDestroy_v2, true);
		CALL(cuStreamDestroy_v2, {0, stream});
		refuse(ENTRY_cuStreamDestroy_v2, false);
		TRUE(capture_is_active());
		CALL(cuStreamDestroy_v2, {0, stream});
		TRUE(!capture_is_active());
	}
}

/* A capture into a graphics API's command list is one like any other, and leaves no graph. */
static void check_graphics_captures(void)
{
	static const enum entry begins[] = {ENTRY_cuStreamBeginCaptureToCig,
	                                    ENTRY_cuStreamBeginCaptureToCig_ptsz};
	static const enum entry ends[] = {ENTRY_cuStreamEndCaptureToCig,
	                                  ENTRY_cuStreamEndCaptureToCig_ptsz};
	size_t before = books("graph");

	for (size_t i = 0; i < COUNT_OF(begins); i++) {
		uint64_t stream = new_handle();

		refuse(begins[i], true);
		call_one(begins[i], stream);
		refuse(begins[i], false);
		TRUE(!capture_is_active());
		call_one(begins[i], stream);
		TRUE(capture_is_active());
		call_one(ends[i], stream);
		TRUE(!capture_is_active());
		EXPECT("graph", before);
	}
}

/* However many there are: one is active until the last has ended, in whatever order they do. */
static void check_many_captures(void)
{
	static const unsigned int counts[] = {300, 1000};
	static uint64_t streams[1000];

	for (size_t c = 0; c < COUNT_OF(counts); c++) {
		unsigned int count = counts[c], step = 7; /* divides neither */

		for (unsigned int i = 0; i < count; i++) {
			streams[i] = new_handle();
			CALL(cuStreamBeginCapture_v2, {0, streams[i]});
		}
		CHECK(capture_count == count, "%u captures: %u are counted", count, capture_count);
		for (unsigned int i = 0; i < count; i++) {
			CHECK(capture_count == count - i, "%u captures, %u ended: %u are counted",
			      count, i, capture_count);
			if (capture_sync_enter()) {
				FAIL("%u captures, %u ended: a context would be waited for", count,
				     i);
				capture_sync_leave();
			}
			CALL(cuStreamEndCapture, {0, streams[i * step % count]}, {1, 0});
		}
		TRUE(!capture_is_active());
		if (capture_sync_enter())
			capture_sync_leave();
		else
			FAIL("no capture is active, and contexts are not waited for");
	}
}

/* --- graphs --- */

static struct object_weight weight_of(const struct resource_type *type, uint64_t object)
{
	struct object_weight weight = {0};
	struct resource *found = context_find_object(type, object);

	if (found)
		weight = object_weight(found);
	else
		FAIL("%s %#llx is not in the books", type->name, (unsigned long long)object);
	resource_release(found);
	return weight;
}
#define WEIGHT(type, object) weight_of(&object_type_##type, WORD(object))

static uint64_t new_graph(void)
{
	uint64_t graph = 0;

	CALL(cuGraphCreate, {0, WORD(&graph)});
	return graph;
}

#define SHAPE(grid_x, grid_y, block_x)                                                     \
	.gridDimX = (grid_x), .gridDimY = (grid_y), .gridDimZ = 1, .blockDimX = (block_x), \
	.blockDimY = 1, .blockDimZ = 1

/* Nodes know what they launch; a child, an executable and an updated graph know the sum. */
static void check_node_changes(void)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {SHAPE(2, 3, 4)};
	CUDA_KERNEL_NODE_PARAMS_v1 first = {SHAPE(5, 1, 2)};
	CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = {SHAPE(7, 1, 1)}};
	uint64_t graph = new_graph(), parent = new_graph(), node = 0, other, child, exec;

	CALL(cuGraphAddKernelNode_v2, {0, WORD(&node)}, {1, graph}, {4, WORD(&kernel)});
	CALL(cuGraphAddKernelNode, {0, WORD(&other)}, {1, graph}, {4, WORD(&first)});
	TRUE(WEIGHT(graph_node, node).threads == 24 && WEIGHT(graph_node, node).kernels == 1);
	TRUE(WEIGHT(graph_node, other).threads == 10);
	CALL(cuGraphAddChildGraphNode, {0, WORD(&child)}, {1, parent}, {4, graph});
	TRUE(WEIGHT(graph_node, child).threads == 34 && WEIGHT(graph_node, child).kernels == 2);
	CALL(cuGraphInstantiateWithFlags, {0, WORD(&exec)}, {1, parent});
	TRUE(WEIGHT(graph_exec, exec).threads == 34 && WEIGHT(graph_exec, exec).kernels == 2);

	refuse(ENTRY_cuGraphKernelNodeSetParams, true);
	CALL(cuGraphKernelNodeSetParams, {0, node}, {1, WORD(&first)});
	refuse(ENTRY_cuGraphKernelNodeSetParams, false);
	TRUE(WEIGHT(graph_node, node).threads == 24);
	CALL(cuGraphKernelNodeSetParams, {0, node}, {1, WORD(&first)});
	TRUE(WEIGHT(graph_node, node).threads == 10);
	CALL(cuGraphKernelNodeSetParams_v2, {0, node}, {1, WORD(&kernel)});
	TRUE(WEIGHT(graph_node, node).threads == 24);
	CALL(cuGraphNodeSetParams, {0, node}, {1, WORD(&any)});
	TRUE(WEIGHT(graph_node, node).threads == 7 && WEIGHT(graph_node, node).changes == 3);
	CALL(cuGraphKernelNodeSetParams_v2, {0, node}, {1, WORD(&kernel)});
	CALL(cuGraphNodeSetParams_v2, {0, node}, {1, WORD(&any)});
	TRUE(WEIGHT(graph_node, node).threads == 7 && WEIGHT(graph_node, node).changes == 5);

	CALL(cuGraphExecUpdate, {0, exec}, {1, graph});
	TRUE(WEIGHT(graph_exec, exec).threads == 17);
	CALL(cuGraphExecUpdate_v2, {0, exec}, {1, parent});
	TRUE(WEIGHT(graph_exec, exec).threads == 34);
	CALL(cuGraphExecDestroy, {0, exec});
	CALL(cuGraphDestroy, {0, graph});
	CALL(cuGraphDestroy, {0, parent});
}

/*
 * Each change of an executable graph is counted, if the driver made it; what it launches is kept.
 */
static void check_exec_changes(void)
{
	static const enum entry rows[] = {ENTRY_cuGraphExecKernelNodeSetParams,
	                                  ENTRY_cuGraphExecKernelNodeSetParams_v2,
	                                  ENTRY_cuGraphExecMemcpyNodeSetParams,
	                                  ENTRY_cuGraphExecMemsetNodeSetParams,
	                                  ENTRY_cuGraphExecHostNodeSetParams,
	                                  ENTRY_cuGraphExecChildGraphNodeSetParams,
	                                  ENTRY_cuGraphExecBatchMemOpNodeSetParams,
	                                  ENTRY_cuGraphExecNodeSetParams,
	                                  ENTRY_cuGraphNodeSetEnabled};
	CUDA_KERNEL_NODE_PARAMS kernel = {SHAPE(2, 3, 4)};
	uint64_t graph = new_graph(), node = 0, exec = 0;
	unsigned int changes;

	CALL(cuGraphAddKernelNode_v2, {0, WORD(&node)}, {1, graph}, {4, WORD(&kernel)});
	CALL(cuGraphInstantiateWithFlags, {0, WORD(&exec)}, {1, graph});
	changes = WEIGHT(graph_exec, exec).changes;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		refuse(rows[i], true);
		call_one(rows[i], exec);
		refuse(rows[i], false);
		TRUE(WEIGHT(graph_exec, exec).changes == changes);
		call_one(rows[i], exec);
		changes++;
		CHECK(WEIGHT(graph_exec, exec).changes == changes, "%s: not counted",
		      row_name[rows[i]]);
		TRUE(WEIGHT(graph_exec, exec).threads == 24);
	}
	CALL(cuGraphExecDestroy, {0, exec});
	CALL(cuGraphDestroy, {0, graph});
}

/* A conditional node's bodies go with it, and their nodes with them. */
static void check_bodies(void)
{
	size_t before = books(NULL);

	for (int second = 0; second < 2; second++) {
		CUgraph bodies[2] = {(CUgraph)(uintptr_t)new_handle(),
		                     (CUgraph)(uintptr_t)new_handle()};
		CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
		                                .conditional = {.size = 2, .phGraph_out = bodies}};
		uint64_t graph = new_graph(), node = 0, inner = 0;

		if (second)
			CALL(cuGraphAddNode_v2, {0, WORD(&node)}, {1, graph},
			     {5, WORD(&parameters)});
		else
			CALL(cuGraphAddNode, {0, WORD(&node)}, {1, graph}, {4, WORD(&parameters)});
		EXPECT("graph_body", 2);
		CALL(cuGraphAddHostNode, {0, WORD(&inner)}, {1, WORD(bodies[1])});
		EXPECT("graph_node", 2);
		if (second)
			CALL(cuGraphDestroyNode, {0, node});
		CALL(cuGraphDestroy, {0, graph});
		TRUE(books(NULL) == before);
	}
}

/* --- user objects --- */

static void CUDA_CB count_end(void *cookie)
{
	++*(int *)cookie;
}

/* References as the calls say; it ends when the driver calls the program's destructor. */
static void check_user_objects(void)
{
	size_t before = books("user_object");
	uint64_t object = 0, graph = new_graph(), destroy = WORD(count_end);
	int ended = 0;

	refuse(ENTRY_cuUserObjectCreate, true);
	CALL(cuUserObjectCreate, {0, WORD(&object)}, {1, WORD(&ended)}, {2, destroy}, {3, 1});
	refuse(ENTRY_cuUserObjectCreate, false);
	CALL(cuUserObjectCreate, {0, 0}, {1, WORD(&ended)}, {2, destroy}, {3, 1});
	EXPECT("user_object", before);
	CALL(cuUserObjectCreate, {0, WORD(&object)}, {1, WORD(&ended)}, {2, destroy}, {3, 1});
	EXPECT("user_object", before + 1);
	TRUE(WEIGHT(user_object, object).uses == 1);
	CALL(cuUserObjectRetain, {0, object}, {1, 2});
	TRUE(WEIGHT(user_object, object).uses == 3);
	CALL(cuGraphRetainUserObject, {0, graph}, {1, object}, {2, 1}, {3, 0});
	TRUE(WEIGHT(user_object, object).uses == 4);
	CALL(cuGraphRetainUserObject, {0, graph}, {1, object}, {2, 2},
	     {3, CU_GRAPH_USER_OBJECT_MOVE});
	TRUE(WEIGHT(user_object, object).uses == 4);
	refuse(ENTRY_cuUserObjectRelease, true);
	CALL(cuUserObjectRelease, {0, object}, {1, 1});
	refuse(ENTRY_cuUserObjectRelease, false);
	TRUE(WEIGHT(user_object, object).uses == 4);
	CALL(cuUserObjectRelease, {0, object}, {1, 1});
	TRUE(WEIGHT(user_object, object).uses == 3);
	TRUE(ended == 0);
	CALL(cuGraphReleaseUserObject, {0, graph}, {1, object}, {2, 3});
	TRUE(ended == 1);
	EXPECT("user_object", before);
	CALL(cuGraphDestroy, {0, graph});

	/* Its context ends first: it belongs to none. */
	CUcontext context = new_context();
	CALL(cuUserObjectCreate, {0, WORD(&object)}, {1, WORD(&ended)}, {2, destroy}, {3, 1});
	CALL(cuCtxDestroy_v2, {0, WORD(context)});
	EXPECT("user_object", before + 1);
	CALL(cuUserObjectRelease, {0, object}, {1, 1});
	TRUE(ended == 2);
	EXPECT("user_object", before);
}

/* --- memory that is counted, and has no entry of its own --- */

static uint64_t charged(void)
{
	return device_charged(&job_devices()->device[0], SEGMENT_ON_DEVICE);
}

static uint64_t new_memory(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	uint64_t handle = 0;

	CALL(cuMemCreate, {0, WORD(&handle)}, {1, 2 * MIB}, {2, WORD(&properties)}, {3, 0});
	return handle;
}

/*
 * Charged as long as a handle or a mapping lives; sharing, binding and rights change nothing in
 * that.
 */
static void check_physical(void)
{
	uint64_t before = charged(), va = 16 * MIB, memory, again = 0;
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUarrayMapInfo tile = {.memOperationType = CU_MEM_OPERATION_TYPE_MAP};

	giver->row[ENTRY_cuMemCreate].out = giver->row[ENTRY_cuMemRetainAllocationHandle].out = 1;
	giver->row[ENTRY_cuMemImportFromShareableHandle].out = 1;
	refuse(ENTRY_cuMemCreate, true);
	new_memory();
	refuse(ENTRY_cuMemCreate, false);
	TRUE(charged() == before);
	memory = new_memory();
	TRUE(charged() == before + 2 * MIB);

	atomic_store(&giver->again, memory);
	CALL(cuMemRetainAllocationHandle, {0, WORD(&again)});
	atomic_store(&giver->again, 0);
	CALL(cuMemRetainAllocationHandle, {0, 0});
	CALL(cuMemRelease, {0, memory});
	TRUE(charged() == before + 2 * MIB);
	CALL(cuMemMap, {0, va}, {1, 2 * MIB}, {2, 0}, {3, memory});
	refuse(ENTRY_cuMemRelease, true);
	CALL(cuMemRelease, {0, memory});
	refuse(ENTRY_cuMemRelease, false);

	CALL(cuMemSetAccess, {0, va}, {1, 2 * MIB}, {2, WORD(&access)}, {3, 1});
	CALL(cuMemSetAccess, {0, va}, {1, 2 * MIB}, {2, 0}, {3, 1});
	CALL(cuMemExportToShareableHandle, {1, memory});
	CALL(cuMemGetHandleForAddressRange, {1, va}, {2, 2 * MIB});
	CALL(cuMulticastBindMem, {2, memory});
	CALL(cuMulticastBindAddr, {2, va}, {3, 2 * MIB});
	CALL(cuMulticastUnbind, {1, 0});
	CALL(cuMulticastBindMem_v2, {3, memory});
	CALL(cuMulticastBindAddr_v2, {3, va}, {4, 2 * MIB});
	CALL(cuLogicalEndpointBindMem, {3, memory});
	CALL(cuLogicalEndpointBindAddr, {3, va}, {4, 2 * MIB});
	CALL(cuLogicalEndpointUnbind, {1, 0});
	tile.memHandle.memHandle = memory;
	CALL(cuMemMapArrayAsync, {0, WORD(&tile)}, {1, 1});
	CALL(cuMemMapArrayAsync, {0, 0}, {1, 1});
	CALL(cuMemMapArrayAsync_ptsz, {0, WORD(&tile)}, {1, 1});
	TRUE(charged() == before + 2 * MIB);

	CALL(cuMemRelease, {0, memory});
	TRUE(charged() == before + 2 * MIB);
	refuse(ENTRY_cuMemUnmap, true);
	CALL(cuMemUnmap, {0, va}, {1, 2 * MIB});
	refuse(ENTRY_cuMemUnmap, false);
	TRUE(charged() == before + 2 * MIB);
	CALL(cuMemUnmap, {0, va}, {1, 2 * MIB});
	TRUE(charged() == before);

	CALL(cuMemImportFromShareableHandle, {0, WORD(&memory)});
	CALL(cuMemImportFromShareableHandle, {0, 0});
	TRUE(charged() == before); /* its owner is */
	CALL(cuMemRelease, {0, memory});
	TRUE(charged() == before);
}

/*
 * Memory in one locality domain (location type 6) is a device's: it is charged and stays there. The
 * driver alone knows type 5.
 */
static void check_locality(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                  .location = {LOCATION_LOCALITY_DOMAIN, 3 << 8}};
	CUmemPoolProps pool_properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                  .location = properties.location};
	uint64_t before = charged(), memory = 0;
	CUmemoryPool handle = NULL;
	struct pool *pool;

	CALL(cuMemCreate, {0, WORD(&memory)}, {1, 2 * MIB}, {2, WORD(&properties)}, {3, 0});
	TRUE(charged() == before + 2 * MIB);
	CALL(cuMemRelease, {0, memory});
	TRUE(charged() == before);
	properties.location = (CUmemLocation){(CUmemLocationType)5, -1};
	CALL(cuMemCreate, {0, WORD(&memory)}, {1, 2 * MIB}, {2, WORD(&properties)}, {3, 0});
	TRUE(charged() == before);
	CALL(cuMemRelease, {0, memory});

	CALL(cuMemPoolCreate, {0, WORD(&handle)}, {1, WORD(&pool_properties)});
	pool = pool_find(handle);
	TRUE(pool); /* so its memory is charged */
	pool_release(pool);
	CALL(cuMemPoolDestroy, {0, WORD(handle)});
}

/*
 * In another thread, while the driver is asked: what it does there gets the handle or the addresses
 * that go.
 */
static struct {
	CUcontext context;
	void (*act)(uint64_t given);
	uint64_t given;
} meanwhile;

static void *act_meanwhile(void *cookie)
{
	(void)cookie;
	BEHIND(cuCtxPushCurrent_v2, meanwhile.context);
	meanwhile.act(meanwhile.given);
	return NULL;
}

static void have_another_act(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, act_meanwhile, NULL) != 0)
		FAIL("no thread");
	else
		pthread_join(other, NULL);
}

static void act_during(enum entry entry, void (*act)(uint64_t given), uint64_t given)
{
	BEHIND(cuCtxGetCurrent, &meanwhile.context);
	meanwhile.act = act;
	meanwhile.given = given;
	atomic_store(&giver->during_row, entry);
	atomic_store(&giver->during, have_another_act);
}

static void make_memory_again(uint64_t handle)
{
	atomic_store(&giver->again, handle);
	TRUE(new_memory() == handle);
	atomic_store(&giver->again, 0);
}

static void release_again(uint64_t handle)
{
	refuse(ENTRY_cuMemRelease, true);
	CALL(cuMemRelease, {0, handle});
	refuse(ENTRY_cuMemRelease, false);
}

enum { AT = 64 << 20 };

static void map_again(uint64_t handle)
{
	CALL(cuMemMap, {0, AT + 2 * MIB}, {1, 4 * MIB}, {2, 0}, {3, handle});
}

/* A context with something of each kind in it. */
struct full_context {
	CUcontext context;
	uint64_t green, event, stream, memory;
	size_t all; /* in the books */
	uint64_t charged;
};
static struct full_context full;

static void fill_context(enum entry end)
{
	bool is_primary = end == ENTRY_cuDevicePrimaryCtxReset ||
	                  end == ENTRY_cuDevicePrimaryCtxReset_v2 ||
	                  end == ENTRY_cuDevicePrimaryCtxRelease;

	full = (struct full_context){0};
	if (is_primary) {
		CALL(cuDevicePrimaryCtxRetain, {0, WORD(&full.context)}, {1, 0});
		BEHIND(cuCtxPushCurrent_v2, full.context);
	} else if (end == ENTRY_cuGreenCtxDestroy) {
		CALL(cuGreenCtxCreate, {0, WORD(&full.green)}, {2, 0});
		CALL(cuCtxFromGreenCtx, {0, WORD(&full.context)}, {1, full.green});
		BEHIND(cuCtxPushCurrent_v2, full.context);
	} else {
		full.context = new_context();
	}
	CALL(cuEventCreate, {0, WORD(&full.event)});
	CALL(cuStreamCreate, {0, WORD(&full.stream)});
	CALL(cuMemAlloc_v2, {0, WORD(&full.memory)}, {1, MIB});
	full.all = books(NULL);
	full.charged = charged();
}

static CUresult end_context(enum entry end)
{
	bool by_device = end == ENTRY_cuDevicePrimaryCtxReset ||
	                 end == ENTRY_cuDevicePrimaryCtxReset_v2 ||
	                 end == ENTRY_cuDevicePrimaryCtxRelease;

	return call_one(end, by_device ? 0 : full.green ? full.green : WORD(full.context));
}

static bool has_asked;

static void all_is_there(void)
{
	struct allocation *memory = allocation_find(full.memory);
	struct context context;

	has_asked = true;
	TRUE(books(NULL) == full.all && charged() == full.charged);
	TRUE(memory && in_books("event", full.event) && in_books("stream", full.stream));
	TRUE(context_find(full.context, &context));
	resource_release(memory ? &memory->resource : NULL);
}

static void make_context_again(uint64_t handle)
{
	CUcontext made = NULL, popped;
	uint64_t event = 0;

	atomic_store(&giver->again, handle);
	CALL(cuCtxCreate_v2, {0, WORD(&made)}, {2, 0});
	atomic_store(&giver->again, full.event);
	CALL(cuEventCreate, {0, WORD(&event)});
	atomic_store(&giver->again, 0);
	TRUE(WORD(made) == handle && event == full.event);
	BEHIND(cuCtxPopCurrent_v2, &popped);
}

/*
 * A context is there, with all that is in it, until the driver has agreed; and the next one of its
 * handle afterwards.
 */
static void check_contexts_leaving(void)
{
	static const enum entry ends[] = {
	    ENTRY_cuCtxDestroy,
	    ENTRY_cuCtxDestroy_v2,
	    ENTRY_cuCtxDetach,
	    ENTRY_cuDevicePrimaryCtxReset,
	    ENTRY_cuDevicePrimaryCtxReset_v2,
	    ENTRY_cuDevicePrimaryCtxRelease,
	    ENTRY_cuGreenCtxDestroy,
	};
	size_t before = books(NULL);
	uint64_t bytes;
	CUcontext popped;

	atomic_store(&giver->takes, 65536);
	bytes = charged();
	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		size_t contexts = books("context");

		fill_context(ends[i]);
		refuse(ends[i], true);
		has_asked = false;
		atomic_store(&giver->during_row, ends[i]);
		atomic_store(&giver->during, all_is_there);
		CHECK(end_context(ends[i]) == CUDA_ERROR_UNKNOWN && has_asked, "%s: not refused",
		      row_name[ends[i]]);
		refuse(ends[i], false);
		all_is_there();
		TRUE(CALL(cuMemFree_v2, {0, full.memory}) == CUDA_SUCCESS);
		TRUE(books(NULL) == full.all - 1);
		EXPECT("context", contexts + 1);
		if (i < 3) { /* the driver gives no other handle of a device's own context */
			act_during(ends[i], make_context_again, WORD(full.context));
			TRUE(end_context(ends[i]) == CUDA_SUCCESS);
			EXPECT("context", contexts + 1);
			TRUE(in_books("event", full.event) && !in_books("stream", full.stream));
		}
		TRUE(end_context(ends[i]) == CUDA_SUCCESS);
		if (!full.green && i >= 3) /* it stays current */
			BEHIND(cuCtxPopCurrent_v2, &popped);
		EXPECT("context", contexts);
		CHECK(books(NULL) == before && charged() == bytes,
		      "%s: %zu objects and %lld bytes stay", row_name[ends[i]],
		      books(NULL) - before, (long long)(charged() - bytes));
	}
	atomic_store(&giver->takes, 0);
}

/* A capture is over when its context is destroyed, and not before. */
static void check_captures_leaving(void)
{
	CUcontext context = new_context();
	uint64_t stream = 0;

	CALL(cuStreamCreate, {0, WORD(&stream)});
	CALL(cuStreamBeginCapture_v2, {0, stream});
	refuse(ENTRY_cuCtxDestroy_v2, true);
	CALL(cuCtxDestroy_v2, {0, WORD(context)});
	refuse(ENTRY_cuCtxDestroy_v2, false);
	TRUE(capture_count == 1);
	CALL(cuCtxDestroy_v2, {0, WORD(context)});
	TRUE(capture_count == 0);
}

/* A capture is of its stream's context, whatever context is current when it begins. */
static void check_captures_of_others(void)
{
	CUcontext own = new_context(), current = new_context();
	uint64_t stream = 0;

	CALL(cuStreamCreate, {0, WORD(&stream)});
	atomic_store(&giver->of_streams, WORD(own));
	CALL(cuStreamBeginCapture_v2, {0, stream});
	CALL(cuCtxDestroy_v2, {0, WORD(current)});
	TRUE(capture_count == 1);
	CALL(cuCtxDestroy_v2, {0, WORD(own)});
	TRUE(capture_count == 0);
	atomic_store(&giver->of_streams, 0);
}

static pthread_t retainer;

static void *retain_again(void *cookie)
{
	CUcontext primary = NULL;

	CALL(cuDevicePrimaryCtxRetain, {0, WORD(&primary)}, {1, 0});
	BEHIND(cuCtxPushCurrent_v2, primary);
	CALL(cuEventCreate, {0, WORD(cookie)});
	return NULL;
}

static uint64_t event_of_next;

static void start_retaining(void)
{
	if (pthread_create(&retainer, NULL, retain_again, &event_of_next) != 0)
		FAIL("no thread");
}

/*
 * Another thread retains the device's own context while the last reference goes: it lives anew, and
 * is in the books.
 */
static void check_primary_again(void)
{
	static const enum entry ends[] = {ENTRY_cuDevicePrimaryCtxRelease,
	                                  ENTRY_cuDevicePrimaryCtxReset_v2};
	size_t contexts = books("context"), events = books("event");
	CUcontext primary = NULL, popped;
	uint64_t event = 0;

	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		CALL(cuDevicePrimaryCtxRetain, {0, WORD(&primary)}, {1, 0});
		BEHIND(cuCtxPushCurrent_v2, primary);
		CALL(cuEventCreate, {0, WORD(&event)});
		BEHIND(cuCtxPopCurrent_v2, &popped);
		atomic_store(&giver->during_row, ends[i]);
		atomic_store(&giver->during, start_retaining);
		TRUE(call_one(ends[i], 0) == CUDA_SUCCESS);
		pthread_join(retainer, NULL);
		EXPECT("context", contexts + 1);
		EXPECT("event", events + 1);
		TRUE(in_books("event", event_of_next) && !in_books("event", event));
		TRUE(call_one(ends[i], 0) == CUDA_SUCCESS);
		EXPECT("context", contexts);
		EXPECT("event", events);
	}
}

/*
 * The handle of what is released, or the addresses of what is unmapped, are another's before the
 * driver has answered.
 */
static void check_physical_again(void)
{
	uint64_t before = charged(), first, second;

	giver->row[ENTRY_cuMemCreate].out = 1;
	first = new_memory();
	act_during(ENTRY_cuMemRelease, make_memory_again, first);
	CALL(cuMemRelease, {0, first});
	TRUE(charged() == before + 2 * MIB);
	/* Another releases it in vain while one does. */
	act_during(ENTRY_cuMemRelease, release_again, first);
	CALL(cuMemRelease, {0, first});
	TRUE(charged() == before);

	first = new_memory();
	second = new_memory();
	CALL(cuMemMap, {0, AT}, {1, 2 * MIB}, {2, 0}, {3, first});
	CALL(cuMemMap, {0, AT + 2 * MIB}, {1, 2 * MIB}, {2, 0}, {3, first});
	CALL(cuMemRelease, {0, first});
	TRUE(charged() == before + 4 * MIB);
	act_during(ENTRY_cuMemUnmap, map_again, second);
	CALL(cuMemUnmap, {0, AT}, {1, 4 * MIB});
	TRUE(charged() == before + 2 * MIB);
	CALL(cuMemRelease, {0, second});
	TRUE(charged() == before + 2 * MIB); /* it is mapped */
	CALL(cuMemUnmap, {0, AT + 2 * MIB}, {1, 4 * MIB});
	TRUE(charged() == before);
}

static void begin_capture(uint64_t stream)
{
	uint64_t made = 0;

	atomic_store(&giver->again, stream);
	CALL(cuStreamCreate, {0, WORD(&made)});
	atomic_store(&giver->again, 0);
	TRUE(made == stream);
	CALL(cuStreamBeginCapture_v2, {0, stream});
}

/*
 * A stream of the same name is captured before the driver has answered: that one's capture goes on.
 */
static void check_captured_again(void)
{
	uint64_t stream = 0;

	CALL(cuStreamCreate, {0, WORD(&stream)});
	CALL(cuStreamBeginCapture_v2, {0, stream});
	act_during(ENTRY_cuStreamDestroy_v2, begin_capture, stream);
	CALL(cuStreamDestroy_v2, {0, stream});
	TRUE(capture_count == 1);
	CALL(cuStreamDestroy_v2, {0, stream});
	TRUE(capture_count == 0);
}

/*
 * Where NVML does not know the process: what the driver takes and tells nobody of goes with the
 * object.
 */
static void check_measured(void)
{
	size_t before = books("measured");
	uint64_t bytes = charged(), object = 0;

	giver->row[ENTRY_cuMulticastCreate].out = 1;
	atomic_store(&giver->takes, MIB);
	CALL(cuMulticastCreate, {0, 0});
	CALL(cuMulticastCreate, {0, WORD(&object)});
	EXPECT("measured", before + 1);
	TRUE(charged() == bytes + MIB);
	CALL(cuMemRelease, {0, object});
	atomic_fetch_sub(&giver->used, MIB);
	EXPECT("measured", before);
	TRUE(charged() == bytes);
	atomic_store(&giver->takes, 0);
}

static uint64_t asked(enum entry entry)
{
	return atomic_load(&giver->row[entry].calls);
}

/*
 * Looks functions up within 50 ms of each other: the first is measured; the next measurement
 * charges what the others took.
 */
static void check_left_out(void)
{
	static const uint64_t never = UINT64_MAX;
	size_t before = books("measured");
	uint64_t module = 0, function[3] = {0}, bytes, queries, every_ns = measured_every_ns;

	CALL(cuModuleLoadData, {0, WORD(&module)});
	bytes = charged();
	atomic_store(&giver->takes, MIB);
	measured_every_ns = 0;
	CALL(cuModuleGetFunction, {0, WORD(&function[0])}, {1, module});
	TRUE(charged() == bytes + MIB);
	EXPECT("measured", before + 1);
	measured_every_ns = never;
	queries = asked(ENTRY_cuMemGetInfo_v2);
	CALL(cuModuleGetFunction, {0, WORD(&function[1])}, {1, module});
	CALL(cuModuleGetFunction, {0, WORD(&function[2])}, {1, module});
	TRUE(charged() == bytes + MIB);
	TRUE(asked(ENTRY_cuMemGetInfo_v2) == queries);
	TRUE(measured_rest_ns(&job_devices()->device[0]) != 0);
	measured_catch_up(&job_devices()->device[0]);
	TRUE(charged() == bytes + 3 * MIB);
	TRUE(asked(ENTRY_cuMemGetInfo_v2) == queries + 1);
	measured_catch_up(&job_devices()->device[0]);
	TRUE(asked(ENTRY_cuMemGetInfo_v2) == queries + 1);
	CALL(cuModuleGetFunction, {0, WORD(&function[1])}, {1, module});
	measured_every_ns = 0;
	TRUE(measured_rest_ns(&job_devices()->device[0]) == 0);
	CALL(cuModuleGetFunction, {0, WORD(&function[2])}, {1, module});
	TRUE(charged() == bytes + 5 * MIB);
	CALL(cuModuleUnload, {0, module});
	atomic_fetch_sub(&giver->used, 5 * MIB);
	TRUE(charged() == bytes);
	EXPECT("measured", before);
	measured_every_ns = every_ns;
	atomic_store(&giver->takes, 0);
}

/* Writes the books of another job, as ours are but for what is charged to it on the device. */
static void charge_beside(uint64_t bytes)
{
	static struct segment_header header;
	const int index = job_devices()->device[0].index;
	const struct ledger *own = job_devices()->device[0].ledger;
	const size_t at = (size_t)((const char *)&own->charged[SEGMENT_ON_DEVICE] -
	                           (const char *)this_job.segment->file);
	char path[512];
	int fd;

	TRUE(directory_segment_path(this_job.config.name, path, sizeof(path)) == 0);
	fd = open(path, O_RDONLY);
	TRUE(pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header));
	close(fd);
	snprintf(header.job, sizeof(header.job), "beside");
	header.token++;
	header.charged[index][SEGMENT_ON_DEVICE] = bytes;
	TRUE(directory_segment_path("beside", path, sizeof(path)) == 0);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	TRUE(pwrite(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header));
	/* Its only process has the process slot that ours has in this job. */
	TRUE(pwrite(fd, &bytes, sizeof(bytes), (off_t)at) == (ssize_t)sizeof(bytes));
	close(fd);
}

/*
 * What the user's other jobs are charged while something is measured is theirs; what they give back
 * makes the own figure no smaller than it would be without.
 */
static void check_beside(void)
{
	uint64_t module = 0, function[2] = {0}, bytes, every_ns = measured_every_ns;
	char path[512];

	charge_beside(100 * MIB);
	CALL(cuModuleLoadData, {0, WORD(&module)});
	measured_every_ns = 0;
	CALL(cuModuleGetFunction, {0, WORD(&function[0])}, {1, module});
	bytes = charged();
	measured_every_ns = UINT64_MAX;
	atomic_store(&giver->takes, MIB);
	CALL(cuModuleGetFunction, {0, WORD(&function[1])}, {1, module});
	atomic_store(&giver->takes, 0);
	TRUE(charged() == bytes);
	charge_beside(140 * MIB);
	atomic_fetch_add(&giver->used, 40 * MIB);
	measured_catch_up(&job_devices()->device[0]);
	TRUE(charged() == bytes + MIB);
	/* Another job's books that go are nothing that we took. */
	CALL(cuModuleGetFunction, {0, WORD(&function[1])}, {1, module});
	charge_beside(0);
	measured_catch_up(&job_devices()->device[0]);
	TRUE(charged() == bytes + MIB);
	CALL(cuModuleUnload, {0, module});
	atomic_fetch_sub(&giver->used, 41 * MIB);
	TRUE(directory_segment_path("beside", path, sizeof(path)) == 0 && unlink(path) == 0);
	measured_every_ns = every_ns;
}

/* A look-up is charged no more than the module's image can hold: the rest is another's. */
static void check_look_up_bounded(void)
{
	static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n";
	const uint64_t most = image_most(image), taken = most + 40 * MIB;
	uint64_t module = 0, function = 0, bytes, every_ns = measured_every_ns;

	CALL(cuModuleLoadData, {0, WORD(&module)}, {1, (uint64_t)(uintptr_t)image});
	bytes = charged();
	atomic_store(&giver->takes, taken);
	measured_every_ns = 0;
	CALL(cuModuleGetFunction, {0, WORD(&function)}, {1, module});
	TRUE(charged() == bytes + most);
	CALL(cuModuleUnload, {0, module});
	TRUE(charged() == bytes);
	atomic_fetch_sub(&giver->used, taken);
	measured_every_ns = every_ns;
	atomic_store(&giver->takes, 0);
}

static _Atomic uint64_t told; /* by NVML: bytes of this process, 0: it does not know it */
static _Atomic unsigned int times_asked;

static bool tell(const struct config_device *device, uint64_t *bytes)
{
	(void)device;
	atomic_fetch_add(&times_asked, 1);
	*bytes = atomic_load(&told);
	return *bytes != 0;
}

/* The job's helper looks as often. */
static uint64_t figure_after_looks(void)
{
	overhead_note();
	for (int i = 0; i < 3; i++)
		overhead_poll(job_devices());
	return registry_memory(job_devices()->device[0].registry, &overhead_type);
}

/*
 * Where NVML knows it: one figure, asked for when a context is made or has gone and by the helper,
 * and no query of the driver.
 */
static void check_told(void)
{
	static const enum entry rows[] = {ENTRY_cuStreamCreate, ENTRY_cuModuleLoadData,
	                                  ENTRY_cuMulticastCreate, ENTRY_cuGraphInstantiate};
	struct device *device = &job_devices()->device[0];
	uint64_t all = charged(), queries, object[COUNT_OF(rows)], function, before;
	CUcontext context;

	in_use_by_process = tell;
	atomic_store(&told, all + 8 * MIB);
	TRUE(overhead_ask(device));
	EXPECT("overhead", 1);
	TRUE(charged() == all + 8 * MIB);
	context = new_context();
	queries = asked(ENTRY_cuMemGetInfo_v2);
	atomic_store(&giver->takes, MIB);
	before = atomic_load(&times_asked);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		call_row(rows[i], &(struct argument){0, WORD(&object[i])}, 1);
	TRUE(atomic_load(&times_asked) <= before + 1); /* a load may be the first in 50 ms */
	CALL(cuModuleGetFunction, {0, WORD(&function)}, {1, object[1]});
	TRUE(asked(ENTRY_cuMemGetInfo_v2) == queries);
	atomic_store(&told, all + 12 * MIB);
	TRUE(figure_after_looks() == 12 * MIB);
	TRUE(charged() == all + 12 * MIB);
	/* A note is taken once, and a capture is left alone. */
	before = atomic_load(&times_asked);
	overhead_poll(job_devices());
	TRUE(atomic_load(&times_asked) == before);
	overhead_note();
	capture_began((CUstream)WORD(&object));
	overhead_poll(job_devices());
	TRUE(atomic_load(&times_asked) == before);
	capture_is_over((CUstream)WORD(&object));
	CALL(cuStreamDestroy_v2, {0, object[0]});
	CALL(cuModuleUnload, {0, object[1]});
	CALL(cuMemRelease, {0, object[2]});
	CALL(cuGraphExecDestroy, {0, object[3]});
	atomic_store(&told, all + 9 * MIB);
	TRUE(figure_after_looks() == 9 * MIB);
	/* With a context what it took goes; refused, it stays. */
	refuse(ENTRY_cuCtxDestroy_v2, true);
	CALL(cuCtxDestroy_v2, {0, WORD(context)});
	refuse(ENTRY_cuCtxDestroy_v2, false);
	TRUE(charged() == all + 9 * MIB);
	atomic_store(&told, all + 8 * MIB);
	CALL(cuCtxDestroy_v2, {0, WORD(context)});
	TRUE(figure_after_looks() == 8 * MIB);
	TRUE(asked(ENTRY_cuMemGetInfo_v2) == queries);
	/* NVML says nothing for once: the figure stays. */
	atomic_store(&told, 0);
	TRUE(figure_after_looks() == 8 * MIB);
	in_use_by_process = NULL;
	overhead_end(device);
	TRUE(charged() == all && !overhead_is_known(device));
	EXPECT("overhead", 0);
	atomic_store(&giver->takes, 0);
}

static bool is_shared(CUdeviceptr address)
{
	struct allocation *a = allocation_find(address);
	bool shared = a && a->is_shared;

	if (a)
		resource_release(&a->resource);
	return shared;
}

/* Memory and pools that others may have open are marked. */
static void check_shared(void)
{
	CUmemPoolProps properties = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUdeviceptr memory[2] = {0, 0};
	CUmemoryPool handle = NULL;
	struct pool *pool;

	CALL(cuMemAlloc_v2, {0, WORD(&memory[0])});
	CALL(cuMemAlloc_v2, {0, WORD(&memory[1])});
	refuse(ENTRY_cuMemPoolExportPointer, true);
	CALL(cuMemPoolExportPointer, {1, memory[0]});
	refuse(ENTRY_cuMemPoolExportPointer, false);
	TRUE(!is_shared(memory[0]) && !is_shared(memory[1]));
	CALL(cuMemPoolExportPointer, {1, memory[0]});
	TRUE(is_shared(memory[0]) && !is_shared(memory[1]));
	CALL(cuPointerSetAttribute, {1, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS}, {2, memory[1]});
	TRUE(is_shared(memory[1]));
	CALL(cuMemFree_v2, {0, memory[0]});
	CALL(cuMemFree_v2, {0, memory[1]});

	CALL(cuMemPoolCreate, {0, WORD(&handle)}, {1, WORD(&properties)});
	pool = pool_find(handle);
	TRUE(pool && !pool_is_shared(pool));
	CALL(cuMemPoolExportToShareableHandle, {1, WORD(handle)});
	TRUE(pool && pool_is_shared(pool));
	pool_release(pool);
	CALL(cuMemPoolDestroy, {0, WORD(handle)});
}

static void *list_often(void *cookie)
{
	const _Atomic bool *stops = cookie;
	uint64_t most = 0;

	while (!atomic_load(stops)) {
		uint64_t bytes = registry_memory(job_devices()->device[0].registry, NULL);

		most = bytes > most ? bytes : most;
	}
	CHECK(most < 1024 * MIB, "%llu bytes are listed", (unsigned long long)most);
	return NULL;
}

/*
 * Another thread lists what is there while pools are charged; the thread sanitizer sees who reads
 * without a lock.
 */
static void check_listed(void)
{
	CUmemPoolProps properties = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	size_t before = books("allocation");
	_Atomic bool stops = false;
	CUmemoryPool pool = NULL;
	pthread_t lister;

	CALL(cuMemPoolCreate, {0, WORD(&pool)}, {1, WORD(&properties)});
	if (pthread_create(&lister, NULL, list_often, &stops) != 0) {
		FAIL("no thread");
		return;
	}
	for (int i = 0; i < 500; i++) {
		CUdeviceptr memory = 0;

		CALL(cuMemAllocFromPoolAsync, {0, WORD(&memory)}, {1, MIB}, {2, WORD(pool)});
		CALL(cuMemFreeAsync, {0, memory});
	}
	atomic_store(&stops, true);
	pthread_join(lister, NULL);
	EXPECT("allocation", before);
	CALL(cuMemPoolDestroy, {0, WORD(pool)});
}

void check_changes(void)
{
	check_current();
	check_attach();
	check_primary();
	check_peer();
	check_checkpoints();
	check_captures();
	check_graphics_captures();
	check_many_captures();
	check_node_changes();
	check_exec_changes();
	check_bodies();
	check_user_objects();
	check_physical();
	check_locality();
	check_contexts_leaving();
	check_captures_leaving();
	check_captures_of_others();
	check_primary_again();
	check_physical_again();
	check_captured_again();
	check_measured();
	check_left_out();
	check_beside();
	check_look_up_bounded();
	check_told();
	check_shared();
	check_listed();
}
