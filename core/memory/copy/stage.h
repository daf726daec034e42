/*
 * Stages: units of device memory through which copies between memory of the host go. They are made
 * when one is wanted, kept until room is wanted, and charged like any other memory, but for those
 * without which a program might wait for ever. Thread-safe.
 */
#ifndef SPILLWAY_STAGE_H
#define SPILLWAY_STAGE_H

#include "core/cuda/context.h"

struct stage;

/* Releases those of the device that no work uses. Returns whether there was any. */
bool stage_trim(const struct device *device);
/*
 * Takes a stage for work of a stream in the current context: one that this stream has used last, or
 * that no work uses any more, or a new one. is_beyond_limit: a new one
 * need not fit below the limit. Returns NULL where there is none. No capture is active.
 */
struct stage *stage_take(const struct context *context, CUstream stream, bool is_beyond_limit);
/* Gives it back when the work is queued that uses it. */
void stage_give(struct stage *stage);
CUdeviceptr stage_address(const struct stage *stage);
/* Returns whether there is any. One relaxed load. */
bool stage_is_any(void);
/* Forgets a stream that is gone, because another may get its name while its work still runs. */
void stage_forget_stream(CUstream stream);
/* Forgets the work of a context that is gone. */
void stage_forget_context(CUcontext context);

#endif
