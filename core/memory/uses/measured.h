/*
 * Measured costs: device memory that the driver takes for contexts, modules, streams, arrays and the like, and
 * tells nobody how much.
 *
 * The difference in what the device has in use before and after the call is charged to the job, without a limit:
 * the driver has it already. It belongs to an object and goes with it, or with the object's context.
 *
 * What others take meanwhile is in the difference too. What this job charged in that time, other processes and
 * threads included, is taken out; what remains of other jobs is bounded by the most that is plausible for the
 * object. A difference below zero is zero. While a stream capture is active nothing is measured, because a query
 * from another thread could invalidate it. Several measurements may run at once without waiting for each other:
 * together they are charged for all, each for what came since the last one ended.
 *
 * Thread-safe; makes driver calls, so no caller may hold a lock the driver's callbacks need.
 */
#ifndef SPILLWAY_MEASURED_H
#define SPILLWAY_MEASURED_H

#include "core/memory/uses/side.h"

/* The most that is plausible, bytes; of a module or library it is what its image can hold (image.h). */
#define MEASURED_MOST_CONTEXT ((uint64_t)2 << 30)
#define MEASURED_MOST_OBJECT  ((uint64_t)256 << 20) /* a stream, a function, a graph, a limit */

/*
 * Bytes of the device that nobody has, for threads without a context of their own: NVML is asked, else the driver in any
 * context of the device. False: unknown. Not while a capture is active.
 */
bool measured_free(const struct device *device, uint64_t *bytes);

/* One call being measured. */
struct measuring {
	struct device *device;  /* NULL: nothing is measured */
	struct context context; /* the one that was current */
};

/* Before the call, in the context it is for. */
void measured_begin(struct measuring *measuring);
/*
 * After it, whatever it answered. owner: the object that came to be, or that grew; NULL after a failure. Bytes
 * charged.
 */
uint64_t measured_end(const struct measuring *measuring, const void *owner, uint64_t most);

/* The same around what makes a context, which needs none before. made: NULL after a failure. */
void measured_begin_context(struct measuring *measuring, struct device *device);
uint64_t measured_end_context(const struct measuring *measuring, CUcontext made);
/*
 * Contexts may be made behind our back, by the runtime library through the driver's private tables. What the first
 * of a device takes is then the difference between measured_start(), before there is any, and the moment it is met.
 */
void measured_start(struct device_set *set);
void measured_first_met(const struct context *context);

/* Around the driver's call that ends the object: its bytes are given back if it agreed. Unknown ones are fine. */
struct leaving measured_leave(const void *owner);
void measured_left(struct leaving *leaving, bool gone);
void measured_forget(const void *owner);

/*
 * Device memory in use on a device, when there is no context to ask in. NULL: it cannot be told, and the first
 * context of a process is then not charged. Set before the first context is made.
 */
extern bool (*measured_without_context)(const struct config_device *device, uint64_t *used);
/*
 * What this process has on the device. NULL or false: not known. Where it is, no more is charged than the process has
 * beyond what is charged already, so that nothing of others is.
 */
extern bool (*measured_by_process)(const struct config_device *device, uint64_t *used);

#endif
