/* SPDX-License-Identifier: MIT */
/*
 * Heat: how much the program needs memory that can move. The functions by which the kernel reaches
 * core/modules/placement, which knows: hooks tell it of launches, copies and graphs, and the mover
 * asks it for ranks.
 *
 * Without that module all memory is as warm. What is beyond the limit leaves in the order of its
 * addresses, and comes back as soon as there is room; nothing changes places.
 */
#ifndef SPILLWAY_HEAT_H
#define SPILLWAY_HEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cuda/capture.h"
#include "core/cuda/driver.h"

struct arena;
struct device;
struct resource;
struct terms;

enum heat { HEAT_COLD, HEAT_WARM, HEAT_MILD, HEAT_HOT };

/* In place of a graph: whose it is is unknown, so it is used whenever one is launched. */
#define HEAT_ANY_GRAPH NULL

/* All but the mover's is thread-safe. */
struct placement_calls {
	/* --- what the program launches and copies: touch.h --- */
	void (*launched)(CUfunction function, void **parameters, void **extra);
	void (*launched_blindly)(void);
	void (*copied)(const CUdeviceptr *addresses, size_t count);
	void (*hide)(CUdeviceptr address);
	void (*graph_launched)(const void *graph);
	void (*graph_kernel)(const void *graph, const void *node, CUfunction function,
	                     void **parameters, void **extra, bool is_changed);
	void (*graph_address)(const void *graph, CUdeviceptr address);
	void (*graph_add)(const void *to, const void *from);
	void (*graph_replace)(const void *to, const void *from);
	void (*graph_forget)(const void *graph);
	void (*graph_capture_ended)(const void *graph);
	/* --- its code: parameters.h --- */
	bool (*needs_images)(void);
	void (*loaded)(struct resource *code, const void *image);
	void (*handed_out)(CUfunction function, struct resource *code, const char *name);
	void (*are_those_of)(CUfunction function, CUfunction kernel);
	void (*forget_functions)(void);
	/* --- when memory was used last: touch.h --- */
	/* Gives the range words, all 0: never used. Returns whether there was memory for them. */
	bool (*track)(CUdeviceptr address, size_t size);
	/* Returns when the range's hottest part that was ever met was used; 0: none was met. */
	uint32_t (*touched)(CUdeviceptr address, size_t size, uint32_t now);
	uint32_t (*now)(void);
	/* Returns the first unit of the run, or part, that a unit's heat is of. */
	uint32_t (*unit)(const struct arena *arena, uint32_t unit);
	/* --- for the mover: placement.h --- */
	/* Ranks memory: what leaves first is less. The upper half is an enum heat. */
	uint64_t (*rank)(const struct device *device, CUdeviceptr address, uint32_t touched,
	                 uint32_t now);
	void (*poll)(struct device *device, const struct terms *terms, uint64_t charged,
	             uint64_t spare, uint64_t on_host);
	void (*note_full)(const struct device *device);
	bool (*is_full)(const struct device *device);
	bool (*is_awaited)(const struct device *device);
	bool (*has_decided)(const struct device *device, CUdeviceptr address);
	void (*note_even)(const struct device *device);
	bool (*hurries)(const struct device *device);
	bool (*is_settled)(const struct device *device);
};

/* NULL: the module is not built in. */
extern _Atomic(const struct placement_calls *) placement_calls;

/* Returns what the module answers, or `otherwise`: placement_ask(false, hurries, device). */
#define placement_ask(otherwise, call, ...)                                       \
	({                                                                        \
		const struct placement_calls *calls_ =                            \
		    atomic_load_explicit(&placement_calls, memory_order_acquire); \
		calls_ ? calls_->call(__VA_ARGS__) : (otherwise);                 \
	})
#define placement_tell(call, ...) placement_ask((void)0, call, ##__VA_ARGS__)

/* --- sampling --- */

/*
 * Launches and copies between two that are looked at, on average, where they come quickly; 0: none
 * is.
 */
enum heat_sampling { HEAT_OFF = 0, HEAT_CLOSELY = 32, HEAT_THINLY = 64, HEAT_SELDOM = 8192 };
extern _Atomic uint32_t heat_sampling;

/*
 * Samples thinly where an arena exists, closely where something is spilled or to be demoted, seldom
 * where it is known what is to be on the host. Without the module nothing is sampled.
 */
static inline void heat_sample(enum heat_sampling sampling)
{
	if (atomic_load(&placement_calls))
		atomic_store_explicit(&heat_sampling, sampling, memory_order_relaxed);
}

struct heat_countdown {
	int32_t left; /* launches and copies of this thread until one is looked at */
};
extern __thread struct heat_countdown heat_countdown __attribute__((tls_model("initial-exec")));

/*
 * Returns, after each launch or copy, whether to look at this one; while a capture is active,
 * always. Where nothing is sampled one relaxed load and one predictable branch.
 */
static inline bool heat_is_due(void)
{
	if (__builtin_expect(!atomic_load_explicit(&heat_sampling, memory_order_relaxed), 1))
		return false;
	return __builtin_expect((--heat_countdown.left <= 0) | (int)capture_is_active(), 0);
}

#endif
