/* SPDX-License-Identifier: MIT */
/* Moves. Rules: by the mover thread alone, inside the user's process. */
#include "core/memory/move/moving.h"

#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/memory/move/copy_window.h"
#include "core/memory/move/plan.h"

static struct plan plan;

/* How long a swap waits for an idle point: it is not worth more. */
#define PATIENCE_NS 500000000ull

/*
 * Returns whether the plan may go on, which may take long: it makes way for a call's request, and
 * for other settings than it was made under.
 */
static bool goes_on(const struct terms *now)
{
	return now->generation == plan.terms->generation && !wanted_is_asked();
}

static bool move_moving_is_beyond_limit(struct device *device)
{
	const struct terms now = terms_of(device);

	return device_charged(device, SEGMENT_ON_DEVICE) > terms_limit_of_movable(&now) &&
	       goes_on(&now);
}

static bool is_within_limit(struct device *device)
{
	const struct terms now = terms_of(device);

	return device_charged(device, SEGMENT_ON_DEVICE) <= terms_limit_of_movable(&now) &&
	       goes_on(&now);
}

/*
 * Returns the same; a plan that waits for a good moment while more room comes is made anew for all
 * of it.
 */
static bool has_all_room(struct device *device)
{
	return is_within_limit(device) && (plan.moved || !wanted_has_fill(device));
}

static bool is_gentle(const struct terms *terms)
{
	return terms->settings.shrink == SHRINK_GENTLE;
}

struct deadline moving_deadline(const struct terms *terms)
{
	return DEADLINE_IN(terms->settings.demote_deadline);
}

struct deadline moving_shrink_deadline(const struct terms *terms)
{
	bool gives_way = terms->settings.priority == PRIORITY_OPPORTUNISTIC &&
	                 terms->yields_above < terms->limit;

	return gives_way ? DEADLINE_IN(0) : moving_deadline(terms);
}

uint64_t moving_closed_ns(void)
{
	return plan.closed_ns;
}

/*
 * Has so much of the choice leave. Returns MOVE_NONE once something was moved, else why nothing
 * was.
 */
static enum move_pending move_moving_demote(struct device *device, uint64_t bytes,
                                            const struct choice *choice, struct deadline *until)
{
	enum move_pending why;

	plan.to = SEGMENT_ON_HOST;
	plan_fill(&plan, device, choice, bytes);
	if (!plan.count) {
		/*
		 * Memory that the program has freed since the spares were let go is among them: it
		 * goes next time.
		 */
		bool has_spares = plan.spares_go && device_spare(device, SEGMENT_ON_DEVICE);

		why = has_spares ? MOVE_SOON : MOVE_PINNED;
		device_note_blocker(device, plan.terms->generation, why);
		return why;
	}
	/* Why memory stayed before is no reason of this; for the rest it is found out again. */
	if (plan.spares_go)
		device_note_blocker(device, plan.terms->generation, MOVE_SOON);
	return copy_window_carry_out(&plan, device, until);
}

enum move_pending moving_demote(struct device *device, const struct terms *terms, uint64_t bytes,
                                const struct choice *choice)
{
	plan = (struct plan){.terms = terms, .is_gentle = true, .is_wanted = is_within_limit};
	return move_moving_demote(device, bytes, choice, &DEADLINE_IN(PATIENCE_NS));
}

enum move_pending moving_demote_decided(struct device *device, const struct terms *terms,
                                        uint64_t bytes, const struct choice *choice, bool insists)
{
	plan = (struct plan){.terms = terms,
	                     .is_gentle = is_gentle(terms),
	                     .is_patient = !insists,
	                     .has_time = true,
	                     .is_wanted = is_within_limit};
	return move_moving_demote(device, bytes, choice, &DEADLINE_IN(PATIENCE_NS));
}

/* Has the coldest memory leave. After a failure a moment is waited for anew. */
static enum move_pending demote_coldest(struct device *device, uint64_t bytes, CUdeviceptr except,
                                        struct deadline *until)
{
	struct choice choice;
	enum move_pending why;

	plan_choose(device, SEGMENT_ON_DEVICE, except, &choice);
	why = move_moving_demote(device, bytes, &choice, until);
	if (why != MOVE_NONE)
		*until = moving_deadline(plan.terms);
	return why;
}

enum move_pending moving_shrink(struct device *device, const struct terms *terms, uint64_t bytes,
                                struct deadline *until)
{
	plan = (struct plan){.terms = terms,
	                     .spares_go = true,
	                     .is_gentle = is_gentle(terms),
	                     .is_wanted = move_moving_is_beyond_limit};
	return demote_coldest(device, bytes, 0, until);
}

enum move_pending moving_make_room(struct device *device, const struct terms *terms, uint64_t bytes,
                                   CUdeviceptr except, struct deadline *until, uint64_t *done)
{
	enum move_pending why;

	plan = (struct plan){.terms = terms, .spares_go = true};
	why = demote_coldest(device, bytes, except, until);
	*done += plan.moved;
	return why;
}

enum move_pending moving_promote(struct device *device, const struct terms *terms, uint64_t bytes,
                                 const struct choice *choice, struct deadline *until)
{
	enum move_pending why;

	plan = (struct plan){.terms = terms,
	                     .to = SEGMENT_ON_DEVICE,
	                     .is_gentle = is_gentle(terms),
	                     .is_wanted = has_all_room};
	plan_fill(&plan, device, choice, bytes);
	if (!plan.count)
		return MOVE_SOON;
	why = copy_window_carry_out(&plan, device, until);
	if (why != MOVE_NONE && !wanted_has_fill(device))
		*until = moving_deadline(plan.terms);
	return why;
}

enum move_pending moving_pin(struct device *device, const struct terms *terms,
                             const struct choice *choice, bool is_exportable, bool *lacks)
{
	enum move_pending why;

	plan = (struct plan){.terms = terms,
	                     .to = SEGMENT_ON_DEVICE,
	                     .is_exportable = is_exportable,
	                     .pins = true,
	                     .spares_go = true};
	plan_fill(&plan, device, choice, UINT64_MAX);
	if (!plan.count)
		return MOVE_PINNED;
	why = copy_window_carry_out(&plan, device, &DEADLINE_IN(0));
	*lacks = !plan.moved && plan.lacks != MOVE_NONE;
	return why;
}
