/* SPDX-License-Identifier: MIT */
/*
 * Launches and copies that are looked at, so that it is known which memory is in use
 * (core/memory/arena/heat.h).
 *
 * SAMPLED(call, looking_at(...)) is the call's answer; where it succeeded and is due, what it was
 * given is looked at after it. Only then: what the driver has not taken may point anywhere.
 */
#ifndef SPILLWAY_SAMPLED_H
#define SPILLWAY_SAMPLED_H

#include "core/memory/alloc/pointer.h"
#include "core/memory/arena/heat.h"
#include "core/registry/registry.h"
#include "shim/shim.h"

#define SAMPLED(call, look)                                    \
	({                                                     \
		CUresult sampled_ = (call);                    \
		if (heat_is_due() && sampled_ == CUDA_SUCCESS) \
			look;                                  \
		sampled_;                                      \
	})

void sampled_launch(CUfunction function, void **parameters, void **extra);
void sampled_launches(const CUDA_LAUNCH_PARAMS *launches, unsigned int count);
void sampled_blind_launch(void);
void sampled_graph(CUgraphExec graph);
/* Addresses that are none, or no device's, do no harm. */
void sampled_copy(CUdeviceptr a, CUdeviceptr b);
void sampled_copies(const CUdeviceptr *a, const CUdeviceptr *b, size_t count);

/*
 * --- uses that graphs are credited with (core/memory/arena/heat.h): not sampled. The caller keeps
 * errno ---
 */

/* A node's use of memory: a kernel's parameters, or addresses, or another graph. */
struct node_use {
	CUfunction function;
	void **parameters, **extra;
	CUdeviceptr a, b;
	CUgraph child;
	const CUDA_MEMCPY3D *copy; /* a copy node's */
};

#define KERNEL_USE(p)                                             \
	((p) ? (struct node_use){.function = (p)->func,           \
	                         .parameters = (p)->kernelParams, \
	                         .extra = (p)->extra}             \
	     : (struct node_use){0})

/* node: where the driver wrote its handle, or NULL. */
void sampled_node(CUgraph graph, const CUgraphNode *node, const struct node_use *use);
void sampled_changed_node(CUgraphNode node, const struct node_use *use);
void sampled_exec_node(CUgraphExec exec, CUgraphNode node, const struct node_use *use);
/* Notes that `to` was made from `from`, or is now what that is. */
void sampled_made_graph(const void *to, CUgraph from);
void sampled_updated_graph(CUgraphExec exec, CUgraph from);
/* Forgets a graph or executable graph that is destroyed. */
void sampled_forget_graph(const void *graph);
/* Notes that a capture ended with this graph. graph: NULL: the capture failed. */
void sampled_captured_graph(CUgraph graph);

/* --- others --- */

/* Notes that a descriptor was made that leads to this address. */
void sampled_hide(CUdeviceptr address);
/*
 * Forgets what the driver said of functions, when one may be about to go: it is asked again, as
 * their handles may be others' soon.
 */
void sampled_forget_asked(void);

/* Hook as GATED and GATED_2 do, for copies and fills. */
#define COPIES(symbol, look, ...)                                                               \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                             \
	{                                                                                       \
		job_break();                                                                    \
		return SAMPLED(PASSING_GATE(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__))), look); \
	}
#define COPIES_2(symbol, other, look, ...) \
	COPIES(symbol, look, __VA_ARGS__)  \
	COPIES(other, look, __VA_ARGS__)

/*
 * Copies and fills without "Async": what is to be in order with the host is done when they return.
 */
#define COPIED_NOW(call, stream, to, from)                                              \
	({                                                                              \
		CUresult copied_ = SAMPLED(PASSING_GATE(call), sampled_copy(to, from)); \
		if (copied_ == CUDA_SUCCESS && pointer_is_in_order(to, from))           \
			copied_ = REAL(cuStreamSynchronize)(stream);                    \
		copied_;                                                                \
	})
#define COPIES_NOW(symbol, stream, to, from, ...)                                                \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                              \
	{                                                                                        \
		job_break();                                                                     \
		return COPIED_NOW(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), stream, to, from); \
	}
#define COPIES_NOW_2(symbol, other, to, from, ...)                  \
	COPIES_NOW(symbol, CU_STREAM_LEGACY, to, from, __VA_ARGS__) \
	COPIES_NOW(other, CU_STREAM_PER_THREAD, to, from, __VA_ARGS__)

#endif
