/*
 * Steps. Rules: runs inside the user's process, after a launch; one short lock, no allocation, no
 * driver call.
 */
#include "core/job/steps.h"

#include "core/base/lock.h"
#include "core/base/clock.h"
#include "core/registry/actions.h"
#include "core/steps/step.h"
#include "core/rings/event.h"

/* All steps are counted; whoever waits for an end need not hear of each this short. */
#define TOLD_EVERY_NS 1000000u

static struct {
	LOCK_OF(STEPS) lock;
	struct step_detector *detector; /* made when steps are first wanted, kept */
	_Atomic unsigned int wanted;    /* enum job_steps_for, any of them */
	uint64_t counted, told_ns;
} steps[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = {.lock = LOCK_FREE}};

bool job_steps_want(int ordinal, enum job_steps_for what, bool wanted)
{
	bool made = true;

	lock_acquire(&steps[ordinal].lock);
	if (wanted && !steps[ordinal].detector) {
		steps[ordinal].detector = step_create();
		made = steps[ordinal].detector != NULL;
	}
	if (wanted && made)
		atomic_fetch_or(&steps[ordinal].wanted, what);
	else
		atomic_fetch_and(&steps[ordinal].wanted, ~(unsigned int)what);
	lock_release(&steps[ordinal].lock);
	return made;
}

static void tell(struct device *device, const struct step *step, uint64_t now)
{
	if (step->mean_ns)
		statistics_set(&device->statistics->step_ns, step->mean_ns);
	if (step->time_ns)
		event_note(.kind = EVENT_step, .device = device->id.ordinal,
		           .begin_ns = now - step->time_ns, .duration_ns = step->time_ns,
		           .a = step->number);
	actions_run(ACTION_STEP_END, device);
	actions_run(ACTION_STEP_BEGIN, device);
}

void job_steps_launched(struct device *device, uint64_t function, uint64_t threads, uint64_t now)
{
	int ordinal = device->id.ordinal;
	uint64_t counted;
	bool ended, is_told = false;
	struct step step;

	if (!atomic_load_explicit(&steps[ordinal].wanted, memory_order_relaxed))
		return;
	now = now ? now : clock_now();
	lock_acquire(&steps[ordinal].lock);
	ended = step_launch(steps[ordinal].detector, function, threads, now, &step);
	if (ended) {
		counted = steps[ordinal].counted;
		steps[ordinal].counted = step.number;
		is_told = now - steps[ordinal].told_ns >= TOLD_EVERY_NS;
		if (is_told)
			steps[ordinal].told_ns = now;
		/*
		 * Where what was counted was no step the number begins anew. Nobody counts them
		 * without the lock, so the add need not be a locked one.
		 */
		statistics_set(&device->statistics->steps,
		               statistics_get(&device->statistics->steps) + step.number - counted);
	}
	lock_release(&steps[ordinal].lock);
	if (is_told)
		tell(device, &step, now);
}
