/* SPDX-License-Identifier: MIT */
/*
 * Questions that may be asked of virtual memory for other hardware, and of handles by calls that
 * are not theirs.
 */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Chunks made as network libraries want them where .pinned is set. */
static CUdeviceptr make(const char *kinds, bool for_network)
{
	size_t count = strlen(kinds);
	CUmemAccessDesc access = range_access();
	CUdeviceptr base = 0;

	ATTEMPT(cuMemAddressReserve(&base, count * small_chunk, 0, 0, 0));
	for (size_t i = 0; i < count; i++) {
		CUmemAllocationProp properties = range_properties(kinds[i]);
		CUmemGenericAllocationHandle handle = 0;

		properties.allocFlags.gpuDirectRDMACapable = for_network;
		ATTEMPT(cuMemCreate(&handle, small_chunk, &properties, 0));
		ATTEMPT(cuMemMap(base + i * small_chunk, small_chunk, 0, handle, 0));
	}
	ATTEMPT(cuMemSetAccess(base, count * small_chunk, &access, 1));
	return base;
}

static void ask_sync_memops(const struct question *q)
{
	CUdeviceptr at = make(q->kinds, q->pinned);
	unsigned one = 1;

	if (not_asked(q))
		return;
	ATTEMPT(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
	if (!refused(q))
		answer(q->name, "yes", "cuPointerSetAttribute succeeded");
}

static void ask_dma_buf(const struct question *q)
{
	CUdeviceptr at = make(q->kinds, q->pinned);
	int descriptor = -1, supported = -1;

	if (not_asked(q))
		return;
	gpu.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
	CUresult result =
	    gpu.cuMemGetHandleForAddressRange(&descriptor, at, strlen(q->kinds) * small_chunk,
	                                      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	answer(q->name, result == CUDA_SUCCESS ? "yes" : "no", "%s, DMA_BUF_SUPPORTED %d",
	       gpu_error_name(result), supported);
	if (descriptor >= 0)
		close(descriptor);
}

/* A kernel of a library is no function. That the process dies is an answer. */
static void ask_kernel_as_function(const struct question *q)
{
	char *ptx = program_read_beside(KERNELS);
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	size_t offset = 0, size = 0;

	ATTEMPT(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	ATTEMPT(cuLibraryGetKernel(&kernel, library, "reread"));
	free(ptx);
	if (not_asked(q))
		return;
	CUresult result = gpu.cuFuncGetParamInfo((CUfunction)kernel, 0, &offset, &size);
	answer(q->name,
	       result == CUDA_SUCCESS && size == sizeof(void *) ? "as of a function"
	       : result == CUDA_ERROR_INVALID_HANDLE            ? "refused"
	                                                        : "other",
	       "%s, offset %zu, size %zu", gpu_error_name(result), offset, size);
}

#define DMA_THEN "an allocation in several chunks is given to other hardware as one range"
#define DMA_ELSE \
	"memory for other hardware has to be one chunk, or is refused as the driver refuses it"

const struct question sharing_questions[] = {
    {.name = "sync_memops_on_vmm",
     .risk = "4",
     .asks = "May virtual memory that was made for network hardware be given synchronous memory "
             "operations?",
     .counted_on = "yes",
     .then = "the driver's word is passed on",
     .otherwise =
         "answer success after pinning, remember it, and have plain copies and fills of such "
         "memory wait: else libfabric and GDRCopy cannot register memory of a limited job",
     .ask = ask_sync_memops,
     .kinds = "d",
     .pinned = true},
    {.name = "dma_buf_two_chunks",
     .risk = "19",
     .asks = "Is there a DMA-BUF over two chunks that were made for network hardware?",
     .counted_on = "yes",
     .then = DMA_THEN,
     .otherwise = DMA_ELSE,
     .ask = ask_dma_buf,
     .kinds = "dd",
     .pinned = true},
    {.name = "dma_buf_two_chunks_not_rdma",
     .risk = "19",
     .asks = "And over two plain chunks?",
     .counted_on = "yes",
     .then = DMA_THEN,
     .otherwise = DMA_ELSE,
     .ask = ask_dma_buf,
     .kinds = "dd"},
    {.name = "kernel_asked_as_function",
     .risk = "16",
     .asks = "What does cuFuncGetParamInfo answer for a CUkernel?",
     .counted_on = "refused | as of a function",
     .then = "the shim tells kernels from functions by it",
     .otherwise = "ask only what the books know; where the process died, today's sampled launch "
                  "can crash a program",
     .ask = ask_kernel_as_function},
    {0},
};
