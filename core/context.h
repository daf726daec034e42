/*
 * Contexts: which device a CUDA context belongs to, and the registry container it stands for.
 *
 * A context may be met first at any call (the runtime library can make the primary one behind our
 * back), so context_current() enters what it does not know yet. Thread-safe.
 */
#ifndef SPILLWAY_CONTEXT_H
#define SPILLWAY_CONTEXT_H

#include "core/device.h"

struct context {
	CUcontext handle;
	struct device *device;
	char container[REGISTRY_NAME_MAX]; /* "ctx1", ... */
};

/* Before any other call: until then no context is known. */
void context_start(struct device_set *set);
/* Copies the calling thread's current context; false when there is none or its device is unknown.
 */
bool context_current(struct context *context);
bool context_find(CUcontext handle, struct context *context);
/* The i-th known context; false past the last. */
bool context_at(size_t i, struct context *context);
/* Changes whenever a context is forgotten: its handle may come again for another. */
unsigned int context_generation(void);
/* The context is being destroyed: its container is cleaned up and it is forgotten. */
void context_forget(CUcontext handle);

#endif
