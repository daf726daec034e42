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
	/* --- samples, after the driver took the call: else pointers are not to be trusted --- */
	/* A kernel was launched: a CUfunction or CUkernel, parameters as for cuLaunchKernel. */
	void (*launched)(CUfunction function, void **parameters, void **extra);
	/* Likewise, with parameters that cannot be read. */
	void (*launched_blindly)(void);
	/* A copy or fill was made; addresses may be any. */
	void (*copied)(const CUdeviceptr *addresses, size_t count);
	/* An executable graph was launched. */
	void (*graph_launched)(const void *graph);
	/* --- told in any case --- */
	/* A descriptor was made that hides this address. */
	void (*hide)(CUdeviceptr address);
	/* A kernel node was added, or changed, in its graph or executable graph. */
	void (*graph_kernel)(const void *graph, const void *node, CUfunction function,
	                     void **parameters, void **extra, bool is_changed);
	/* A copying or filling node was added; any address. */
	void (*graph_address)(const void *graph, CUdeviceptr address);
	/* `to` uses the memory of `from` from now on: as well, or alone. */
	void (*graph_add)(const void *to, const void *from);
	void (*graph_replace)(const void *to, const void *from);
	/* A graph was destroyed. */
	void (*graph_forget)(const void *graph);
	/* A capture ended; graph: its result, NULL: nothing. */
	void (*graph_capture_ended)(const void *graph);
	/* --- its code --- */
	/* Returns whether the next three are of use: the driver does not tell parameters. */
	bool (*needs_images)(void);
	/*
	 * An image was loaded as this object, a module or library. The findings are kept for the
	 * object, and gone with it.
	 */
	void (*loaded)(struct resource *code, const void *image);
	/*
	 * A module or library (NULL: an unknown one) handed out a function or kernel by name, and a
	 * kernel its function.
	 */
	void (*handed_out)(CUfunction function, struct resource *code, const char *name);
	void (*are_those_of)(CUfunction function, CUfunction kernel);
	/* Handles of functions are about to become invalid: the driver is asked again if needed. */
	void (*forget_functions)(void);
	/* --- when memory was used last --- */
	/* Gives the range words, all 0: never used. Returns whether there was memory for them. */
	bool (*track)(CUdeviceptr address, size_t size);
	/* Returns when the range's hottest part that was ever met was used; 0: none was met. */
	uint32_t (*touched)(CUdeviceptr address, size_t size, uint32_t now);
	/* Returns the time now, in steps of 4 ms; never 0. */
	uint32_t (*now)(void);
	/* Returns the first unit of the run, or part, that a unit's heat is of. */
	uint32_t (*unit)(const struct arena *arena, uint32_t unit);
	/* --- for the mover --- */
	/* Ranks memory: what leaves first is less. The upper half is an enum heat. */
	uint64_t (*rank)(const struct device *device, CUdeviceptr address, uint32_t touched,
	                 uint32_t now);
	/*
	 * Goes on with the survey of a device. charged: bytes of it on the device, but not those
	 * that are kept ready; spare: those; on_host: those that could come back.
	 */
	void (*poll)(struct device *device, const struct terms *terms, uint64_t charged,
	             uint64_t spare, uint64_t on_host);
	/*
	 * The device has no room for memory on the host, though the limit has: other jobs have the
	 * rest, and so much stays there.
	 */
	void (*note_full)(const struct device *device);
	/* Returns whether that was so, and something has been on the host ever since. */
	bool (*is_full)(const struct device *device);
	/*
	 * Returns whether a first survey has still to end that may find the best order: until then
	 * nothing is exchanged by heat, which knows only the latest fills.
	 */
	bool (*is_awaited)(const struct device *device);
	/* Returns whether it is decided where this piece of memory is to be. */
	bool (*has_decided)(const struct device *device, CUdeviceptr address);
	/*
	 * There is nothing to exchange any more: now it can be measured whether the decision is
	 * worth it.
	 */
	void (*note_even)(const struct device *device);
	/* Returns whether it was decided lately that memory changes places, and it has not yet. */
	bool (*hurries)(const struct device *device);
	/* Returns whether looking at heat would change nothing on this device. */
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
