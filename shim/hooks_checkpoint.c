/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints: while this process is locked or checkpointed its device memory is on its way
 * elsewhere. Spillway makes no driver call of its own then, just as while a capture is active. A
 * checkpoint of another process is that process's matter.
 */
#include "shim/shim.h"

#include <stdatomic.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/cuda/capture.h"

/* Stands for the checkpoint among the captures. */
static char checkpoint;
#define CHECKPOINT ((CUstream)(void *)&checkpoint)
static _Atomic bool is_quiet;

static CUresult checkpoint_note(CUresult result, int pid, const char *what, bool quiet)
{
	KEEP_ERRNO;

	if (result != CUDA_SUCCESS)
		return result;
	log_debug("process %d: %s", pid, what);
	if (pid != getpid())
		return result;
	if (quiet && !atomic_exchange(&is_quiet, true))
		capture_began(CHECKPOINT);
	else if (!quiet && atomic_exchange(&is_quiet, false))
		capture_is_over(CHECKPOINT);
	return result;
}

HOOK(cuCheckpointProcessLock, int pid, CUcheckpointLockArgs *args)
{
	/* Inside the gate: the thread that closes it then knows of the lock. */
	return PASSING_GATE(
	    checkpoint_note(REAL(cuCheckpointProcessLock)(pid, args), pid, "locked", true));
}

HOOK(cuCheckpointProcessCheckpoint, int pid, CUcheckpointCheckpointArgs *args)
{
	return checkpoint_note(REAL(cuCheckpointProcessCheckpoint)(pid, args), pid, "checkpointed",
	                       true);
}

HOOK(cuCheckpointProcessRestore, int pid, CUcheckpointRestoreArgs *args)
{
	return checkpoint_note(REAL(cuCheckpointProcessRestore)(pid, args), pid,
	                       "restored, still locked", true);
}

HOOK(cuCheckpointProcessUnlock, int pid, CUcheckpointUnlockArgs *args)
{
	return checkpoint_note(REAL(cuCheckpointProcessUnlock)(pid, args), pid, "unlocked", false);
}

/* Another process may have locked or unlocked us. */
HOOK(cuCheckpointProcessGetState, int pid, CUprocessState *state)
{
	CUresult result = REAL(cuCheckpointProcessGetState)(pid, state);

	if (result != CUDA_SUCCESS || !state)
		return result;
	return *state == CU_PROCESS_STATE_RUNNING ? checkpoint_note(result, pid, "runs", false)
	                                          : checkpoint_note(result, pid, "is locked", true);
}

HOOK(cuCheckpointProcessGetRestoreThreadId, int pid, int *tid)
{
	CUresult result = REAL(cuCheckpointProcessGetRestoreThreadId)(pid, tid);

	if (result == CUDA_SUCCESS && tid)
		log_debug("process %d: thread %d restores", pid, *tid);
	return result;
}
