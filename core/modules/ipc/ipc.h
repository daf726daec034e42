/* SPDX-License-Identifier: MIT */
/*
 * Memory of an arena, and blocks of slabs, for other processes: the answers of cuIpcGetMemHandle,
 * cuIpcOpenMemHandle and cuIpcCloseMemHandle for them (core/memory/alloc/ipc_calls.h). The driver
 * has no such handles for virtual memory, and of a slab only one of the whole. server.c gives;
 * import.c opens, keeps opened memory and closes it.
 *
 * Memory given away stays on the device for good. Opened memory is charged to its owner, and to the
 * job when the owner has freed it or died (exported.h); another job's memory to the process that
 * opens it. It is good until it is closed, and goes with the context it was opened in. Thread-safe.
 */
#ifndef SPILLWAY_IPC_H
#define SPILLWAY_IPC_H

#include <stdbool.h>

#include "core/memory/alloc/ipc_calls.h"
#include "core/wire/wire.h"

/*
 * Fills in what the kernel asks of memory of other processes. is_own: returns whether the token is
 * that of this process's server.
 */
void import_add_calls(struct ipc_calls *calls, bool (*is_own)(const struct wire_token *token));
/* Releases memory that was opened in a context that is destroyed. */
void ipc_forget_context(CUcontext context);

#endif
