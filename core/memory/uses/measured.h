/* SPDX-License-Identifier: MIT */
/*
 * Measured costs: device memory that the driver takes for contexts, modules, arrays, graphs and the
 * like, and does not report.
 *
 * Where NVML knows this process they are one figure per device (overhead.h), and nothing here asks
 * the driver. Where NVML does not, as in some containers, the device's memory in use is read before
 * and after the call. The job is charged the difference, without a limit, because the driver has it
 * already. It belongs to an object and goes with it, or with the object's context. The memory of a
 * stream is then not known.
 *
 * The difference contains memory that other processes take meanwhile, too. The charges of the
 * user's processes in that time, this one included, are taken out, process by process
 * (charges_change()). Contexts are charged once they are there, so they are made one at a time. A
 * process that dies meanwhile can make the figure too small, never too large. A rest remains, of
 * memory under way, of other users' jobs and of programs without Spillway. It is bounded by the
 * most that is plausible for the object. A difference below zero is zero. While a stream capture is
 * active nothing is measured, because a query from another thread could invalidate it. Several
 * measurements may run at once without waiting for each other: together they are charged for all,
 * each for the growth since the last one ended.
 *
 * A function is looked up more often than that may cost: of such calls at most one in 50 ms is
 * measured. The bytes of the rest are charged by the next measurement or allocation, or by the
 * mover, to the first that was left out.
 *
 * Thread-safe; makes driver calls, so no caller may hold a lock the driver's callbacks need.
 */
#ifndef SPILLWAY_MEASURED_H
#define SPILLWAY_MEASURED_H

#include "core/memory/uses/overhead.h"
#include "core/memory/uses/counted.h"

/*
 * The most that is plausible, bytes; of a module or library it is the size that its image can hold
 * (image.h).
 */
#define MEASURED_MOST_CONTEXT ((uint64_t)2 << 30)
#define MEASURED_MOST_OBJECT  ((uint64_t)256 << 20) /* a function, a graph, a limit */

/* How often such calls are measured as seldom take memory: 50 ms; tests have other times. */
extern uint64_t measured_every_ns;

/* One call being measured. */
struct measuring {
	struct device *device; /* NULL: nothing is measured, and the rest is not set */
	bool is_told;          /* by NVML */
	bool is_left_out;
	void
	    *alone; /* of a context: the lock that keeps other processes from making one; or NULL */
	struct context context; /* the one that was current */
};

/*
 * Begins to measure, before the call, in the context it is for. seldom: the call is frequent and
 * seldom takes memory.
 */
void measured_begin(struct measuring *measuring, bool seldom);
/*
 * Ends the measuring after the call, with any answer. owner: the object that came to be, or that
 * grew; NULL after a failure. Returns the bytes charged.
 */
uint64_t measured_end(const struct measuring *measuring, const void *owner, uint64_t most);
/*
 * Ends it likewise where `ahead` bytes were charged for memory that the call might take. They are
 * given back once the memory it took is charged, so that the job is never charged less than it has.
 * Returns
 * false where nothing is measured: they stay the caller's.
 */
bool measured_end_ahead(const struct measuring *measuring, const void *owner, uint64_t most,
                        uint64_t ahead);
/*
 * Charges the bytes that were left out on a device. For the next call that takes memory, and for
 * the mover once measured_rest_ns() is 0: until then another job's memory would be taken for it.
 */
extern _Atomic bool measured_is_behind[DEVICE_MAX];
uint64_t measured_rest_ns(const struct device *device);
void measured_catch_up_now(struct device *device);
static inline void measured_catch_up(struct device *device)
{
	if (__builtin_expect(
	        atomic_load_explicit(&measured_is_behind[device->id.ordinal], memory_order_relaxed),
	        0))
		measured_catch_up_now(device);
}

/*
 * Begins and ends the same around a call that makes a context, which needs none before. made: NULL
 * after a failure.
 */
void measured_begin_context(struct measuring *measuring, struct device *device);
uint64_t measured_end_context(const struct measuring *measuring, CUcontext made);
/*
 * Contexts may be made behind our back, by the runtime library through the driver's private tables.
 * The bytes of the first of a device are then the difference between measured_start(), before there
 * is any, and the moment it is met.
 */
void measured_start(struct device_set *set);
void measured_first_met(const struct context *context);

/*
 * Begins and ends an object's leaving, around the driver's call that ends the object: its bytes are
 * given back if it agreed. Unknown ones are fine.
 */
struct leaving measured_leave(const void *owner);
void measured_left(struct leaving *leaving, bool gone);
/* Ends it likewise for a context, once it is forgotten. */
void measured_left_context(struct leaving *leaving, struct device *device, bool gone);

#endif
