/* SPDX-License-Identifier: MIT */
/* Memory that is given to the other processes by IPC handles, on the board. */
#include <stdlib.h>
#include <string.h>

#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

void do_give(struct dice *dice)
{
	struct block *block = block_any(dice, KIND(KIND_PLAIN), false);
	struct slot *slot = worker.slot;
	CUipcMemHandle handle;

	/* The module that gives may not be built in. */
	if (!block || getenv("GIVES_MEMORY") || !HAD(cuIpcGetMemHandle(&handle, block->at)))
		return;
	OK(cuStreamSynchronize(block->stream));
	graphs_forget(block->number);
	block->is_given = true;
	atomic_store(&slot->gift_version, slot->gift_version | 1);
	slot->gift = (struct gift){handle, block->size, block->pattern.factor, block->pattern.term};
	atomic_store(&slot->gift_version, slot->gift_version + 1);
}

/* Returns whether another process gives something; a copy of it. */
static bool take_gift(struct dice *dice, struct gift *gift)
{
	int from = (worker.number + 1 + (int)below(dice, WORKERS - 1)) % WORKERS;
	struct slot *slot = &board->slot[from];
	uint32_t version = atomic_load(&slot->gift_version);

	*gift = slot->gift;
	atomic_thread_fence(memory_order_acquire);
	note(" of process %d", from);
	return version != 0 && version % 2 == 0 && atomic_load(&slot->gift_version) == version;
}

/* Whoever gave it may be gone, stopped, or have it no more; what opens has the giver's bytes. */
void do_open(struct dice *dice)
{
	struct gift gift;
	struct block *block;
	CUresult result;

	if (!take_gift(dice, &gift)) {
		note(": nothing");
		return;
	}
	block = block_new(KIND_OPENED, gift.size);
	if (!block)
		return;
	result = cuIpcOpenMemHandle(&block->at, gift.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result != CUDA_SUCCESS) {
		block->kind = KIND_NONE;
		note(": error %d", result);
		if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_MAP_FAILED &&
		    result != CUDA_ERROR_OUT_OF_MEMORY && result != CUDA_ERROR_INVALID_HANDLE &&
		    result != CUDA_ERROR_ALREADY_MAPPED && result != CUDA_ERROR_INVALID_CONTEXT)
			fail("cuIpcOpenMemHandle: error %d", result);
		return;
	}
	block->pattern = (struct pattern){gift.factor, gift.term};
	block_verify(block);
}

void ipc_close(struct block *block)
{
	OK(cuIpcCloseMemHandle(block->at));
}
