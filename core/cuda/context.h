/* SPDX-License-Identifier: MIT */
/*
 * Contexts: the device of a CUDA context, and the registry container that stands for it.
 *
 * A context may be met first at any call (the runtime library can make the primary one behind our
 * back), so context_current() enters unknown ones. Thread-safe.
 *
 * The mover and the waiting thread use contexts that are the program's to destroy. Each is borrowed
 * before it is made current (context_push()), and the thread that destroys it waits until it is
 * given back, 5 s at most. No thread borrows a context that is leaving. A thread that would have to
 * wait for its work waits until the driver, which waits for that too, has answered.
 */
#ifndef SPILLWAY_CONTEXT_H
#define SPILLWAY_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>

#include "core/cuda/driver.h"
#include "core/registry/registry.h"

/* As many devices as a job's segment has. */
enum { CONTEXT_DEVICES = 16 };

/* A device, as far as it is known here: the caller that handed it over knows the rest. */
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
	bool is_gone;          /* it agreed, and its records are being released; likewise */
	pthread_t giver;       /* the thread that does so */
};

/* Takes the devices over, before any other call: until then no context is known. */
void context_start(const struct context_device *devices, int count);
/*
 * Copies the calling thread's current context: handle, device and container, which do not change.
 * False when there is none or its device is unknown.
 */
bool context_current(struct context *context);
/*
 * Returns the current context as the thread's own copy, until it asks again. NULL: there is none.
 */
const struct context *context_here(void);
/* Called with no lock held after a context was entered, perhaps again; NULL: no module wants it. */
extern void (*context_met)(const struct context *context);
bool context_find(CUcontext handle, struct context *context);
/*
 * Enters a context that the program was given, current or not; waits while the records of an
 * earlier one of its handle are being released. green: it was made from; NULL: none.
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
 * has agreed the context is known with all its objects. From now on no thread borrows the context
 * any more; current borrowers are waited for, at most 5 s. *leaving: the context as it is known.
 * Returns false when it is not known.
 *
 * context_stay() notes that the driver refused. Returns whether no other thread asks.
 *
 * context_gone() notes that it agreed. One thread releases the records of the context: the one that
 * asked, or one that was given its handle for a new context before the driver answered. Returns
 * whether that is the caller, which calls context_forget() then.
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
 * Finds an object in the books of any context and device, the current ones first, and prefers one
 * that is not leaving. It has a reference for the caller; NULL: it is nowhere.
 */
struct resource *context_find_object(const struct resource_type *type, uint64_t object);
/* Finds it likewise, before the driver is asked to let it go (registry_left()). */
struct leaving context_leave_object(const struct resource_type *type, uint64_t object);
/* Finds it in the same way, without a reference: its resource is not to be touched. */
void context_leave_unheld(const struct resource_type *type, uint64_t object,
                          struct leaving *leaving);
/*
 * For types that leave unmarked: before the driver is asked, and after it agreed. Returns the
 * object that was there, and the registry's reference is the caller's; or NULL.
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
 * Returns the registry of the process's first device; its default container is for objects without
 * a context.
 */
struct registry *context_free_registry(void);

#endif
