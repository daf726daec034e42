/* SPDX-License-Identifier: MIT */
/*
 * Following CUDA objects from the call that makes them to the call that destroys them.
 *
 * A row that makes or destroys one object is one line:
 *
 *   CREATES(cuEventCreate, event, phEvent, (CUevent *, phEvent), (unsigned int, Flags))
 *   HANDS_OUT(cuModuleGetFunction, function, hfunc, module, hmod, (CUfunction *, hfunc), ...)
 *   DESTROYS(cuEventDestroy_v2, event, hEvent, (CUevent, hEvent))
 *
 * The second word is the type in OBJECT_TYPES (core/registry/object.h). HANDS_OUT is for an object
 * that belongs to another, goes with it and may be asked for again; after the out-parameter stand
 * its owner's type and handle. A hook with a body of its own uses CREATED, HANDED_OUT and DESTROYED
 * around the driver's call. Out-parameters are read only after the driver succeeded; NULL ones are
 * the driver's to judge.
 */
#ifndef SPILLWAY_TRACK_H
#define SPILLWAY_TRACK_H

#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/uses/measured.h"
#include "core/registry/object.h"
#include "shim/owner.h"

#define CREATES(symbol, type, out, ...)                                                \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                    \
	{                                                                              \
		return CREATED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), type, out); \
	}
#define HANDS_OUT(symbol, type, out, owner_type, owner, ...)                                   \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                            \
	{                                                                                      \
		return HANDED_OUT(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), type, out, NULL, \
		                  owner_type, owner);                                          \
	}
#define DESTROYS(symbol, type, object, ...)                                                      \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                              \
	{                                                                                        \
		return DESTROYED(PASSING_GATE(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__))), type, \
		                 object);                                                        \
	}

#define CREATED(call, type, out)                                       \
	({                                                             \
		CUresult created_ = (call);                            \
		if (created_ == CUDA_SUCCESS && (out))                 \
			track(&object_type_##type, HANDLE(*(out)), 0); \
		created_;                                              \
	})

#define HANDED_OUT(call, type, out, weight, owner_type, owner)                   \
	({                                                                       \
		CUresult handed_ = (call);                                       \
		if (handed_ == CUDA_SUCCESS && (out))                            \
			track_owned(&object_type_##type, HANDLE(*(out)), weight, \
			            &object_type_##owner_type, HANDLE(owner));   \
		handed_;                                                         \
	})

/*
 * It is leaving while the driver is asked (registry.h): a refusal changes nothing, and an object
 * that gets its address meanwhile stays.
 */
#define DESTROYED(call, type, object)                                  \
	({                                                             \
		struct tracked going_;                                 \
		untrack(&object_type_##type, HANDLE(object), &going_); \
		CUresult destroyed_ = (call);                          \
		untrack_end(&going_, destroyed_);                      \
		destroyed_;                                            \
	})

/*
 * A call during which the driver may take memory without reporting it: charged to `owner`
 * afterwards. `owner` and `most` are evaluated after it, if it is measured and succeeds.
 */
#define MEASURED(call, owner, most) MEASURED_FROM(begin_measuring(false), call, owner, most)
/* Measures in the same way a call that is frequent and seldom takes memory. */
#define MEASURED_SELDOM(call, owner, most) MEASURED_FROM(begin_measuring(true), call, owner, most)
#define MEASURED_FROM(begin, call, owner, most)                                       \
	({                                                                            \
		struct asking asking_ = {0};                                          \
		CUresult measured_;                                                   \
		do {                                                                  \
			struct measuring measuring_ = begin;                          \
			measured_ = (call);                                           \
			if (measuring_.device && measured_ == CUDA_SUCCESS)           \
				end_measuring(&measuring_, HANDLE(owner), most);      \
			else                                                          \
				end_measuring(&measuring_, 0, 0);                     \
		} while ((measured_ == CUDA_ERROR_OUT_OF_MEMORY || asking_.device) && \
		         others_gave(measured_, NULL, &asking_));                     \
		measured_;                                                            \
	})
/* A call for which the driver may take or give back a little: only where NVML tells is it known how
 * much. */
#define NOTED(call)                         \
	({                                  \
		CUresult noted_ = (call);   \
		if (noted_ == CUDA_SUCCESS) \
			overhead_note();    \
		noted_;                     \
	})
/* As CREATED, and the memory it takes is its own. */
#define CREATED_MEASURED(call, type, out) \
	CREATED(MEASURED(call, (out) ? HANDLE(*(out)) : 0, MEASURED_MOST_OBJECT), type, out)
/* As DESTROYED, for an object that may have been measured. */
#define DESTROYED_MEASURED(call, type, object)                           \
	({                                                               \
		struct leaving cost_ = begin_forgetting(HANDLE(object)); \
		CUresult freed_ = DESTROYED(call, type, object);         \
		end_forgetting(&cost_, freed_);                          \
		freed_;                                                  \
	})

/* An object that the driver is asked to destroy. */
struct tracked {
	const struct resource_type *type;
	bool is_marked;
	struct leaving leaving;       /* where it is */
	struct before_leaving before; /* else */
};

/* Enters an object made in the current context; the object that had its address before is gone. */
void track_enter(const struct object_entry *entry);
static inline void track(const struct resource_type *type, uint64_t object, uint64_t bytes)
{
	track_enter(&(struct object_entry){.type = type, .address = object, .weight.bytes = bytes});
}
/*
 * Tracks likewise one that goes with its owner; nothing happens when it is known. weight NULL:
 * none.
 */
void track_owned(const struct resource_type *type, uint64_t object,
                 const struct object_weight *weight, const struct resource_type *owner_type,
                 uint64_t owner);
/* Begins to take an object out of the books, from any context, the current one first. */
void untrack(const struct resource_type *type, uint64_t object, struct tracked *going);
/* Ends it after the driver's answer: gone for good, with its records elsewhere, or unchanged. */
void untrack_end(struct tracked *going, CUresult result);

/* Set with the first mapping of external memory: until then no free looks for one. */
extern _Atomic bool track_any_mapped_buffer;

/*
 * How much borrowed or unused memory other jobs are asked to give for memory that the driver takes
 * without reporting it. It is a 16th of the device at first and twice as much each time, for 5 s in
 * all. For example, on 16 GiB it is 1 GiB, then 2, 4 and 8. Begins zeroed.
 */
struct asking {
	const struct device *device; /* on which they have given; NULL: on none */
	uint64_t bytes;
	struct deadline until;
};
/*
 * Returns whether they have given after the device was full, so that another try is worth it: again
 * after each try, with any result. device: NULL: that of the current context.
 */
bool others_gave(CUresult result, const CUdevice *device, struct asking *asking);

/* Measures as measured.h does; does nothing where the job is not active. */
struct measuring begin_measuring(bool seldom); /* most calls are then left out */
void end_measuring(const struct measuring *measuring, uint64_t owner, uint64_t most);
struct leaving begin_forgetting(uint64_t owner);
void end_forgetting(struct leaving *leaving, CUresult result);

#endif
