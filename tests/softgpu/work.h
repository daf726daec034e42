/* SPDX-License-Identifier: MIT */
/*
 * Pieces of work that are made but not yet queued. Graphs are launched from them. NULL: no memory.
 */
#ifndef SOFTGPU_WORK_H
#define SOFTGPU_WORK_H

#include "tests/softgpu/copy.h"
#include "tests/softgpu/module.h"

/* launch.c */
CUresult kernel_check(const struct function *function, const struct ptx_launch *shape);
/* Copies the parameters of a launch, given in either way, into the block. */
CUresult kernel_gather(void *block, const struct ptx_function_info *info, void *const *pointers,
                       void *const *extra);
struct work *kernel_work(struct context *context, const struct function *function,
                         const struct ptx_launch *shape, const void *block);
/* copy.c, copy_api.c */
CUresult copy_read_3d(const CUDA_MEMCPY3D *what, struct copy_side *to, struct copy_side *from,
                      struct copy_shape *shape);
/* `by_cpu`: a node that was captured while both sides were memory of the host. */
struct work *copy_work(struct copy_side to, struct copy_side from, struct copy_shape shape,
                       bool by_cpu);
/* fill.c */
CUresult fill_check(const CUDA_MEMSET_NODE_PARAMS_v2 *what, enum side_kind *kind);
struct work *fill_work(const CUDA_MEMSET_NODE_PARAMS_v2 *what);
/* stream_api.c */
struct work *host_work(CUhostFn function, void *data);
/* event.c; the record counts from now on */
struct work *event_record_work(CUevent event);
struct work *event_wait_work(CUevent event);
/* The context an event belongs to, or NULL when there is no such event. */
struct context *event_context(CUevent event);

#endif
