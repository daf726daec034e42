/* Moves. Rules: by the mover thread alone, inside the user's process. */
#include "core/memory/move/moving.h"

#include "core/budget/terms.h"
#include "core/memory/move/closure.h"
#include "core/memory/move/plan.h"

static struct plan plan;

bool moving_is_over_limit(struct device *device)
{
	const struct terms now = terms_of(device);

	return device_charged(device, SEGMENT_ON_DEVICE) > terms_limit_of_movable(&now);
}

static bool is_within_limit(struct device *device)
{
	return !moving_is_over_limit(device);
}

uint64_t moving_closed_ns(void)
{
	return plan.closed_ns;
}

static enum move_pending demote(struct device *device, const struct terms *terms, uint64_t bytes,
                                const struct choice *choice, bool is_urgent,
                                bool (*is_wanted)(struct device *device))
{
	enum move_pending why;

	plan = (struct plan){
	    .terms = terms, .to = SEGMENT_ON_HOST, .spares_go = is_urgent, .is_wanted = is_wanted};
	why = plan_fill(&plan, device, choice, bytes, closure_bytes(device));
	if (!plan.count) {
		/*
		 * What the program has freed since the spares were let go is among them: it goes
		 * next time.
		 */
		bool has_spares = is_urgent && device_spare(device, SEGMENT_ON_DEVICE);

		if (why == MOVE_NONE)
			why = has_spares ? MOVE_SOON : MOVE_PINNED;
		device_note_blocker(device, terms->generation, why);
		return why;
	}
	/* Why memory stayed before is no reason of this; for the rest it is found out again. */
	if (is_urgent)
		device_note_blocker(device, terms->generation, MOVE_SOON);
	return closure_carry_out(&plan, device,
	                         is_urgent ? terms->settings.demote_deadline : MOVING_PATIENCE_NS);
}

enum move_pending moving_demote(struct device *device, const struct terms *terms, uint64_t bytes,
                                const struct choice *choice)
{
	return demote(device, terms, bytes, choice, false, is_within_limit);
}

enum move_pending moving_shrink(struct device *device, const struct terms *terms, uint64_t bytes,
                                bool (*is_wanted)(struct device *device), uint64_t *done)
{
	struct choice choice;
	enum move_pending why;

	plan_choose(device, SEGMENT_ON_DEVICE, &choice);
	why = demote(device, terms, bytes, &choice, true, is_wanted);
	*done += plan.moved;
	return why;
}

enum move_pending moving_promote(struct device *device, const struct terms *terms, uint64_t bytes,
                                 const struct choice *choice)
{
	enum move_pending why;

	plan = (struct plan){.terms = terms, .to = SEGMENT_ON_DEVICE, .is_wanted = is_within_limit};
	why = plan_fill(&plan, device, choice, bytes, closure_bytes(device));
	if (plan.count)
		return closure_carry_out(&plan, device, MOVING_PATIENCE_NS);
	if (why == MOVE_NONE)
		return MOVE_SOON;
	device_note_blocker(device, terms->generation, why);
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
	why = plan_fill(&plan, device, choice, UINT64_MAX, closure_bytes(device));
	if (plan.count)
		return closure_carry_out(&plan, device, 0);
	*lacks = why != MOVE_NONE;
	return *lacks ? why : MOVE_PINNED;
}
