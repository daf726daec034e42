/* SPDX-License-Identifier: MIT */
/* The rows that create: the object of each, its owner, and the call that destroys it. */
#include "tests/unit/tracking.h"

#define LINE(symbol, parameter, name) .create = ENTRY_##symbol, .at = (parameter), .type = (name)
#define OWNER(symbol, parameter)      .owner = ENTRY_##symbol, .owner_at = (parameter)
#define ARGUMENT_IS(parameter, value) .with = {{parameter, value}}
#define PLACE(parameter, bytes)       .place_at = (parameter) + 1, .place = (bytes)
#define E(symbol)                     ENTRY_##symbol

#define CONTEXT_ENDS    .flags = FREE, .end = {E(cuCtxDestroy), E(cuCtxDestroy_v2), E(cuCtxDetach)}
#define EVENT_ENDS      .end = {E(cuEventDestroy), E(cuEventDestroy_v2)}
#define STREAM_ENDS     .end = {E(cuStreamDestroy), E(cuStreamDestroy_v2)}
#define ALLOCATION_ENDS .end = {E(cuMemFree_v2), E(cuMemFreeAsync), E(cuMemFreeAsync_ptsz)}
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

const struct line lines[] = {
    {LINE(cuArrayCreate_v2, 0, "array"), .end = {E(cuArrayDestroy)}},
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
    {LINE(cuGreenCtxStreamCreate, 0, "stream"), OWNER(cuGreenCtxCreate, 1), .flags = ANEW,
     STREAM_ENDS},

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
    NODE(cuGraphAddNode_v3),
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
     .end = {E(cuMemFree_v2)}},
    {LINE(cuExternalMemoryGetMappedMipmappedArray, 0, "mipmapped_array"),
     OWNER(cuImportExternalMemory, 1), .end = {E(cuMipmappedArrayDestroy)}},
    {LINE(cuImportExternalSemaphore, 0, "external_semaphore"),
     .end = {E(cuDestroyExternalSemaphore)}},
    GRAPHICS(cuGraphicsGLRegisterBuffer),
    GRAPHICS(cuGraphicsGLRegisterImage),
    GRAPHICS(cuGraphicsEGLRegisterImage),
    GRAPHICS(cuGraphicsVDPAURegisterOutputSurface),
    GRAPHICS(cuGraphicsVDPAURegisterVideoSurface),

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

    {LINE(cuMemAlloc_v2, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocPitch_v2, 0, "allocation"), ARGUMENT_IS(4, 8), ALLOCATION_ENDS},
    {LINE(cuMemAllocManaged, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocAsync, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocAsync_ptsz, 0, "allocation"), ALLOCATION_ENDS},
    {LINE(cuMemAllocFromPoolAsync, 0, "allocation"), OWNER(cuMemPoolCreate, 2), .flags = STAYS,
     ALLOCATION_ENDS},
    {LINE(cuMemAllocFromPoolAsync_ptsz, 0, "allocation"), OWNER(cuMemPoolCreate, 2), .flags = STAYS,
     ALLOCATION_ENDS},
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
};
const size_t line_count = sizeof(lines) / sizeof(*lines);

const struct line *line_of(int create)
{
	for (size_t i = 0; i < line_count; i++) {
		if ((int)lines[i].create == create)
			return &lines[i];
	}
	return NULL;
}
