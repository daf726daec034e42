/* SPDX-License-Identifier: MIT */
/*
 * Counted memory: memory that is counted and never moved. Registry resources in the container of
 * their context, named by address or handle.
 *
 *   array            cuArrayCreate and its kin; charged by the request
 *   host_allocation  pinned host memory the program allocates or registers; in the statistics,
 *                    not in a quota
 *   ipc_mapping      another process's memory, by cuIpcOpenMemHandle; charged where its owner is
 *                    not of the job
 *   imported_memory  another process's, by pools' pointers; its owner is charged, we are not
 *   reservation      addresses alone
 *   measured         memory that the driver took for an object and does not report (measured.h)
 *
 * Thread-safe; never calls the driver on the application's objects.
 */
#ifndef SPILLWAY_COUNTED_H
#define SPILLWAY_COUNTED_H

#include "core/budget/device.h"
#include "core/cuda/context.h"

#define COUNTED_TYPES(X)   \
	X(array)           \
	X(host_allocation) \
	X(ipc_mapping)     \
	X(imported_memory) \
	X(reservation)     \
	X(measured)

#define X(name) extern const struct resource_type counted_type_##name;
COUNTED_TYPES(X)
#undef X

/*
 * Enters memory of so many bytes, of which `charged` are charged to the device already and go with
 * the entry. A mapping, imported memory or a measurement that is there under that name counts once
 * more; anything else is replaced. context NULL: the current one; without one nothing is entered.
 * Where that cannot be, `charged` is given back.
 */
void counted_enter(const struct resource_type *type, const struct context *context, uint64_t object,
                   uint64_t bytes, uint64_t charged);

/* Another process's memory as far as it is known: bytes; of them charged; the key by which it is
 * the job's (exported.h). */
struct counted_import {
	uint64_t bytes, charged, imported_as;
};
/* Counts an ipc_mapping once more that is there already. False: it is not. */
bool counted_is_open_again(const struct context *context, uint64_t object);
/* Enters an ipc_mapping that was opened; takes over the charge and the key, or gives them back
 * where another thread was first. */
void counted_enter_import(const struct context *context, uint64_t object,
                          const struct counted_import *import);

/*
 * Ends its leaving (context_leave_object()), after the driver's answer. gone: it agreed. One that
 * was entered several times stays until the last.
 */
void counted_left(struct leaving *leaving, bool gone);

#endif
