/* SPDX-License-Identifier: MIT */
/*
 * Contexts: which device a CUDA context belongs to, and the registry container it stands for.
 *
 * A context may be met first at any call (the runtime library can make the primary one behind our
 * back), so context_current() enters what it does not know yet. Thread-safe.
 *
 * The mover and the waiting thread use contexts that are the program's to destroy: each is
 * borrowed before it is made current (context_push()), and who destroys it waits until it is given
 * back, 5 s at most. Nobody borrows one that is leaving, and who would have to wait for its work
 * waits until the driver, which waits for that too, has answered.
 */
#ifndef SPILLWAY_CONTEXT_H
#define SPILLWAY_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>

#include "core/cuda/driver.h"
#include "core/registry/registry.h"

/* As many devices as a job's segment has. */
enum { CONTEXT_DEVICES = 16 };

/* A device, as far as it is known here: the rest is known to whoever handed it over. */
struct device;
struct context_device {
	CUdevice handle;
	int ordinal;
	struct registry *registry;
	struct device *device;
};

struct context {
	CUcontext handle;
	struct device *device;
	const struct context_device *of;   /* the same */
	char container[REGISTRY_NAME_MAX]; /* "ctx1", ... */
	CUgreenCtx green;                  /* the green context it was made from; NULL: none */
	unsigned int uses;                 /* creating it, and each cuCtxAttach() */
	unsigned int number;   /* "1", ...; a handle may come again, a number does not */
	unsigned int borrowed; /* by context_push(); guarded */
	unsigned int leaving;  /* calls that ask the driver to destroy it; likewise */
	bool is_gone;          /* it agreed, and what is kept of it is being given up; likewise */
	pthread_t giver;       /* by whom */
};

/* Takes the devices over, before any other call: until then no context is known. */
void context_start(const struct context_device *devices, int count);
/* Returns the devices that context_start() was given; *count is 0 before. */
const struct context_device *context_devices(int *count);
/*
 * Copies the calling thread's current context: handle, device and container, which stay what they
 * are. False when there is none or its device is unknown.
 */
bool context_current(struct context *context);
/*
 * Returns the current context as the thread's own copy, until it asks again. NULL: there is none.
 */
const struct context *context_here(void);
/* Called with no lock held after a context was entered, perhaps again; NULL: nobody cares. */
extern void (*context_met)(const struct context *context);
bool context_find(CUcontext handle, struct context *context);
/*
 * Enters a context of which the program was told, current or not; waits while what is kept of an
 * earlier one of its handle is being given up. green: it was made from; NULL: none.
 */
void context_enter(CUcontext handle, CUdevice device, CUgreenCtx green);
/* Counts one more use of a context that was attached to. */
void context_attach(CUcontext handle);
/* Finds the known context that was made from a green one. */
bool context_of_green(CUgreenCtx green, struct context *context);
/*
 * Makes a known context current, which its owner may be about to destroy: until context_pop() he
 * waits. Also of the caller's own. CUDA_ERROR_CONTEXT_IS_DESTROYED: it goes, or is not known.
 */
CUresult context_push(CUcontext handle);
void context_pop(CUcontext handle);

/*
 * Begins leaving, before the driver is asked to destroy a context, which it may refuse: until it
 * has agreed the context is known and all that was made in it is there. From now on nobody borrows
 * the context any more; those who have are waited for, at most 5 s. *leaving: the context as it is
 * known. Returns false when it is not known.
 *
 * context_stay() says that the driver refused. Returns whether nobody else asks.
 *
 * context_gone() says that it agreed. One thread gives up what is kept of the context: the one that
 * asked, or one that was given its handle for a new context before the driver answered. Returns
 * whether that is the caller, who is to call context_forget() then.
 */
bool context_leave(CUcontext handle, struct context *leaving);
bool context_stay(const struct context *leaving);
bool context_gone(const struct context *gone);
/*
 * Notes that a context was detached from, by the driver too. Returns whether that was the last use
 * of this very one.
 */
bool context_detach(const struct context *leaving);
/* Returns whether the driver is asked to destroy it now. */
bool context_is_leaving(CUcontext handle);

/*
 * Finds some known context of the device, rather one that is not leaving. Returns false when it has
 * none.
 */
bool context_of_device(const struct device *device, struct context *context);
/*
 * Copies the i-th known context. Returns false past the last. Where one is forgotten meanwhile a
 * walk may miss another, and context_generation() has changed.
 */
bool context_at(size_t i, struct context *context);
/* Returns whether this is the only one that is known. */
bool context_is_alone(CUcontext handle);
/* Returns how many contexts are known now, on all devices. */
int contexts_known(void);
/* Changes whenever a context is forgotten: its handle may come again for another. */
unsigned int context_generation(void);
/* Forgets a context that is gone; its container is cleaned up. */
void context_forget(CUcontext handle);

/*
 * Finds an object in the books of whatever context and device, the current ones first, and rather
 * one that is not leaving. It has a reference for the caller; NULL: it is nowhere.
 */
struct resource *context_find_object(const struct resource_type *type, uint64_t object);
/* Finds it likewise, before the driver is asked to let it go (registry_left()). */
struct leaving context_leave_object(const struct resource_type *type, uint64_t object);
/* Finds it in the same way, without a reference: its resource is not to be touched. */
void context_leave_unheld(const struct resource_type *type, uint64_t object,
                          struct leaving *leaving);
/*
 * For types that leave unmarked: before the driver is asked, and after it agreed. Returns what was
 * there, and the registry's reference is the caller's; or NULL.
 */
struct before_leaving {
	uint64_t entries[CONTEXT_DEVICES];
};
void context_before_leaving(struct before_leaving *before);
struct resource *context_take_before(const struct resource_type *type, uint64_t object,
                                     const struct before_leaving *before);
/* Returns the device of this handle, or NULL. */
struct device *context_device(CUdevice handle);
/*
 * Returns the registry of the process's first device, whose default container is for what belongs
 * to no context.
 */
struct registry *context_free_registry(void);

#endif
