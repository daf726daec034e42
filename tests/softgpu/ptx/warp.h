/* SPDX-License-Identifier: MIT */
/*
 * Frames, splits and joins of a warp. A split is named by its place in warp->splits, which is good
 * until the next split is removed; removing one moves the last into the hole.
 */
#ifndef SOFTGPU_PTX_WARP_H
#define SOFTGPU_PTX_WARP_H

#include "machine.h"

/* The split that runs from now on. */
void split_select(struct warp *w, uint32_t index);
/* Selects one that is ready; false when all wait. */
bool split_next(struct warp *w);
struct split *split_add(struct warp *w, struct frame *frame, uint32_t at, uint32_t lanes_in,
                        uint8_t join);
/* Splits that a barrier or a collective brought to one place go on as one: `current` may move. */
void split_merge(struct warp *w);
/* Some lanes of the current split become a split of their own, which is returned. */
uint32_t split_carve(struct warp *w, uint32_t mask);
/* The lanes `taken` of the current split go to another instruction than the rest. */
void split_diverge(struct warp *w, const struct insn *in, uint32_t taken, uint32_t target);
/* If the split is where its join is, it is absorbed there, or all go on; false: it is not there. */
bool split_arrive(struct warp *w, uint32_t index);
/* Lets go of the lanes that wait at a join. */
void join_open(struct warp *w, uint8_t index);

void call_enter(struct warp *w, const struct call *call, const struct ptx_function *callee,
                uint32_t index);
/* Each lane may call another function: those that call the same go together. */
void call_enter_indirect(struct warp *w, const struct insn *in, const struct call *call,
                         uint32_t mask);
void call_leave(struct warp *w, uint32_t index);

/* Lanes of the current split end. */
void warp_exit_lanes(struct warp *w, uint32_t gone);

#endif
