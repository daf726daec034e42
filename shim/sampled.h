/* SPDX-License-Identifier: MIT */
/*
 * Launches and copies that are looked at, so that it is known which memory is in use
 * (core/memory/arena/heat.h).
 *
 * SAMPLED(call, looking_at(...)) is the call's answer; where it succeeded and is due, what it was
 * given is looked at after it. Only then: what the driver has not taken may point anywhere.
 */
#ifndef SPILLWAY_SAMPLED_H
#define SPILLWAY_SAMPLED_H

#include "core/job/job.h"
#include "core/memory/arena/heat.h"
#include "core/registry/registry.h"
#include "shim/shim.h"

/* Returns whether uses are credited to graphs: nothing is where no arena is. */
static inline bool sampled_is_wanted(void)
{
	return atomic_load_explicit(&heat_sampling, memory_order_relaxed) && job_is_active();
}

#define SAMPLED(call, look)                                    \
	({                                                     \
		CUresult sampled_ = (call);                    \
		if (heat_is_due() && sampled_ == CUDA_SUCCESS) \
			look;                                  \
		sampled_;                                      \
	})

/* Notes that a capture ended with this graph. NULL: it failed. (hooks_graph.c) */
void sampled_captured_graph(CUgraph graph);

/*
 * Forgets what the driver said of functions, when one may be about to go: it is asked again, as
 * their handles may be others' soon.
 */
static inline void sampled_forget_asked(void)
{
	KEEP_ERRNO;

	if (job_is_active())
		placement_tell(forget_functions);
}

#endif
