/* SPDX-License-Identifier: MIT */
/*
 * Functions without a body in PTX that hardware's own library provides: the executor runs them as
 * part of the call instruction.
 */
#ifndef SOFTGPU_PTX_DEVICE_CALLS_H
#define SOFTGPU_PTX_DEVICE_CALLS_H

#include "machine.h"

/* Returns argument i of a call, as a lane gave it; its result, up to 8 bytes of it. */
uint64_t call_argument(const struct warp *w, const struct call *call, uint32_t lane, uint32_t i);
void call_result(struct warp *w, const struct call *call, uint32_t lane, uint64_t value);

/* malloc, __cuda_syscall_aligned_malloc and free. */
void kernel_malloc(struct warp *w, const struct insn *in, uint32_t mask);
void kernel_free(struct warp *w, const struct insn *in, uint32_t mask);

/* cudaGraphSetConditional. */
void kernel_set_conditional(struct warp *w, const struct insn *in, uint32_t mask);

#endif
