/*
 * The pacer: holds launches back so that a process takes only its share of a device.
 *
 * A paced launch goes through pacer_before(), the driver, pacer_after(). pacer_before() waits while the
 * share is 0 (pause), waits for what is in flight once that is a quantum of GPU time, by the cost of
 * the launches before, and inserts the idle slot that pays the account's debt.
 *
 * It never waits for a kernel's completion without bound: a running kernel may need the very launch that
 * is held back. The bound is twice the longest round seen, within PACER_PATIENCE_MIN and _MAX. While a
 * capture is active nothing is measured and no slot inserted. One pacer per device; thread-safe.
 */
#ifndef SPILLWAY_PACER_H
#define SPILLWAY_PACER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/driver.h"

#define PACER_QUANTUM_NS      2000000ull
#define PACER_PATIENCE_MIN_NS 20000000ull
#define PACER_PATIENCE_MAX_NS 1000000000ull

struct pacer;
struct device;

struct pacer *pacer_create(struct device *device); /* NULL: no memory */
/* Takes a new share into account at once, also by those who wait. share in thousandths of a
 * percent. */
void pacer_set(struct pacer *pacer, uint32_t share, uint64_t window_ns);
bool pacer_is_pacing(const struct pacer *pacer);

/* stream: with NULL replaced by CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. */
void pacer_before(struct pacer *pacer, CUcontext context, CUstream stream);
void pacer_after(struct pacer *pacer, CUcontext context, CUstream stream);
/* The context goes; alive: not yet, so its events can still be destroyed. */
void pacer_forget_context(struct pacer *pacer, CUcontext context, bool alive);
void pacer_forget_stream(struct pacer *pacer, CUstream stream);

#endif
