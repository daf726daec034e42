/*
 * Following CUDA objects from the call that makes them to the call that destroys them.
 *
 * A row that makes or destroys one object is one line:
 *
 *   CREATES(cuEventCreate, event, phEvent, (CUevent *, phEvent), (unsigned int, Flags))
 *   DESTROYS(cuEventDestroy_v2, event, hEvent, (CUevent, hEvent))
 *
 * The second word is the type in OBJECT_TYPES (core/registry/object.h). A hook with a body of its own uses
 * CREATED(call, type, out) and DESTROYED(call, type, object) around the driver's call. Out-parameters are
 * read only after the driver succeeded; NULL ones are the driver's to judge.
 */
#ifndef SPILLWAY_TRACK_H
#define SPILLWAY_TRACK_H

#include "core/registry/object.h"
#include "shim/shim.h"

#define CREATES(symbol, type, out, ...)                                                \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                    \
	{                                                                              \
		return CREATED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), type, out); \
	}
#define DESTROYS(symbol, type, object, ...)                                                 \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                         \
	{                                                                                   \
		return DESTROYED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), type, object); \
	}

#define CREATED(call, type, out)                                                      \
	({                                                                            \
		CUresult created_ = (call);                                           \
		if (created_ == CUDA_SUCCESS && (out))                                \
			track(&object_type_##type, (uint64_t)(uintptr_t) * (out), 0); \
		created_;                                                             \
	})

/*
 * It leaves the books before the driver is asked: the driver may give its address to the next object of
 * another thread at once. If the driver refuses it comes back.
 */
#define DESTROYED(call, type, object)                                            \
	({                                                                       \
		struct tracked going_ =                                          \
		    untrack(&object_type_##type, (uint64_t)(uintptr_t)(object)); \
		CUresult destroyed_ = (call);                                    \
		untrack_end(&going_, destroyed_);                                \
		destroyed_;                                                      \
	})

/* An object that left the books for now. */
struct tracked {
	struct registry *registry;
	struct resource *resource; /* NULL: it was not tracked */
	char container[REGISTRY_NAME_MAX];
	uint64_t object;
};

/* Enters an object made in the current context; what its address stood for before is gone. */
void track(const struct resource_type *type, uint64_t object, uint64_t bytes);
/* Whatever context it was made in, the current one first. */
struct tracked untrack(const struct resource_type *type, uint64_t object);
/* After the driver's answer: gone for good, or back where it was. */
void untrack_end(struct tracked *going, CUresult result);

#endif
