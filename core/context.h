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
	CUgreenCtx green;                  /* the green context it was made from; NULL: none */
	unsigned int uses;                 /* creating it, and each cuCtxAttach() */
	unsigned int borrowed;             /* by context_push(); guarded */
	bool is_closing;                   /* likewise */
};

/* Before any other call: until then no context is known. */
void context_start(struct device_set *set);
/*
 * Copies the calling thread's current context: handle, device and container, which stay what they are. False when there
 * is none or its device is unknown.
 */
bool context_current(struct context *context);
/* Called with no lock held after a context was entered, perhaps again; NULL: nobody cares. */
extern void (*context_met)(const struct context *context);
bool context_find(CUcontext handle, struct context *context);
/* Enters a context of which the program was told, current or not. green: it was made from; NULL: none. */
void context_enter(CUcontext handle, CUdevice device, CUgreenCtx green);
/* Adds to its uses; how many there are then. Of an unknown context: 1. */
unsigned int context_use(CUcontext handle, int change);
/* The known context that was made from a green one. */
bool context_of_green(CUgreenCtx green, struct context *context);
/*
 * Makes a known context current, which its owner may be about to destroy: until context_pop() he waits. Also of the
 * caller's own. CUDA_ERROR_CONTEXT_IS_DESTROYED: it goes, or is not known.
 */
CUresult context_push(CUcontext handle);
void context_pop(CUcontext handle);
/* Before it may be destroyed: nobody borrows it any more; waits for those who have, at most 5 s. */
void context_close(CUcontext handle);
/* It was not destroyed. */
void context_reopen(CUcontext handle);
/* Some known context of the device; false: it has none. */
bool context_of_device(const struct device *device, struct context *context);
/*
 * The i-th known context; false past the last. Where one is forgotten meanwhile a walk may miss another, and
 * context_generation() has changed.
 */
bool context_at(size_t i, struct context *context);
/* How many are known now, on all devices. */
int contexts_known(void);
/* Changes whenever a context is forgotten: its handle may come again for another. */
unsigned int context_generation(void);
/* The context is being destroyed: its container is cleaned up and it is forgotten. */
void context_forget(CUcontext handle);

/*
 * An object in the books of whatever context and device, the current ones first, and rather one that is not leaving. With
 * a reference for the caller; NULL: nowhere.
 */
struct resource *context_find_object(const struct resource_type *type, uint64_t object);
/* Likewise, before the driver is asked to let it go (registry_left()). */
struct leaving context_leave_object(const struct resource_type *type, uint64_t object);
/* The device of this handle, or NULL. */
struct device *context_device(CUdevice handle);
/* For what belongs to no context: the default container of the process's first device. */
struct registry *context_free_registry(void);

#endif
