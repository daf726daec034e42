/* SPDX-License-Identifier: MIT */
/* Refusals and spills. Rules: runs inside the user's process, within its calls. */
#include "core/budget/refusal.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/cuda/capture.h"
#include "core/registry/actions.h"
#include "core/rings/event.h"

/*
 * By default no program is refused while there is room on the host. A caching allocator could give
 * its cache back first. It cannot be seen from here whether it asks again. If it does not, the
 * refusal is the user's out of memory. PyTorch 2.15 asks no second time in a capture, nor where its
 * own bound (set_per_process_memory_fraction) was met first. NCCL and cuBLAS in the same process
 * never do. A capture makes a count wait, too: nothing can be given back in it.
 */
bool refusal_is_wanted(const struct device *device, const struct terms *terms)
{
	return terms->settings.spill_after != CONFIG_AUTO && !capture_is_active() &&
	       atomic_load_explicit(&device->refusals, memory_order_relaxed) <
	           terms->settings.spill_after;
}

/* --- why --- */

static uint64_t refusal_beyond(uint64_t held, uint64_t bytes, uint64_t limit)
{
	uint64_t wanted = held > UINT64_MAX - bytes ? UINT64_MAX : held + bytes;

	return wanted > limit ? wanted - limit : 0;
}

static struct refused refusal_on_host(struct device *device, const struct terms *terms,
                                      uint64_t bytes, const struct lack *lack)
{
	const struct config_gpu *settings = &terms->settings;
	uint64_t limit = terms_host_limit(terms, device);
	/* An allocation may lie on both tiers: the host lacks room for the rest alone. */
	uint64_t rest = refusal_beyond(device_charged(device, SEGMENT_ON_DEVICE), bytes,
	                               terms_limit_of_movable(terms));
	uint64_t beyond = refusal_beyond(device_charged(device, SEGMENT_ON_HOST),
	                                 rest && rest < bytes ? rest : bytes, limit);
	bool is_number = settings->host_memory < CONFIG_AUTO;

	/* Memory comes in chunks. For example, 90 KiB want 2 MiB, and a limit of 1 MiB has none. */
	if (!beyond)
		beyond =
		    refusal_beyond(device_charged(device, SEGMENT_ON_HOST), lack->least, limit);
	if (!device->is_in_books && is_number)
		return (struct refused){REFUSED_NO_BOOKS, bytes, beyond, REFUSED_NO_LIMIT};
	if (is_number && lack->bytes && beyond && limit == settings->host_memory)
		return (struct refused){REFUSED_HOST_LIMIT, bytes, beyond, limit};
	return (struct refused){REFUSED_HOST_FULL, bytes, beyond,
	                        limit < CONFIG_AUTO ? limit : REFUSED_NO_LIMIT};
}

struct refused refusal_by_lack(struct device *device, const struct terms *terms, uint64_t bytes,
                               const struct lack *lack)
{
	uint64_t beyond;

	if (lack->bytes && device_is_held_up())
		return (struct refused){REFUSED_BOOKS_HELD, bytes, 0, REFUSED_NO_LIMIT};
	if (lack->tier == SEGMENT_ON_HOST && (lack->bytes || lack->why))
		return refusal_on_host(device, terms, bytes, lack);
	if (!lack->bytes)
		return (struct refused){REFUSED_PROCESS, bytes, 0, REFUSED_NO_LIMIT};
	if (lack->why == SPILL_DEVICE_FULL)
		return (struct refused){REFUSED_DEVICE_FULL, bytes, lack->bytes, REFUSED_NO_LIMIT};
	beyond =
	    refusal_beyond(device_charged(device, SEGMENT_ON_DEVICE), lack->bytes, terms->limit);
	if (!device->is_in_books)
		return (struct refused){REFUSED_NO_BOOKS, bytes, beyond, REFUSED_NO_LIMIT};
	return (struct refused){terms->settings.spill == SPILL_OFF ? REFUSED_MEMORY_LIMIT
	                                                           : REFUSED_UNMOVABLE,
	                        bytes, beyond, terms->limit};
}

struct refused refusal_of_unmovable(struct device *device, uint64_t bytes)
{
	const struct terms terms = terms_of(device);
	const struct lack lack = {SEGMENT_ON_DEVICE, bytes, bytes, SPILL_LIMIT};
	struct refused refused = refusal_by_lack(device, &terms, bytes, &lack);

	if (refused.reason == REFUSED_MEMORY_LIMIT)
		refused.reason = REFUSED_UNMOVABLE;
	return refused;
}

/* --- the log --- */

__thread const void *refusal_site __attribute__((tls_model("initial-exec")));

/* Returns whether it is the first of its reason and kind of memory in this process. */
static bool refusal_is_new(enum refused_memory memory, enum refusal_reason reason)
{
	static _Atomic uint32_t said[REFUSED_MEMORIES];
	const uint32_t bit = UINT32_C(1) << reason;

	return !(atomic_fetch_or(&said[memory], bit) & bit);
}

/* Says, of memory that cannot leave, which limit is enough: in whole MiB, never too few. */
static void refusal_say(struct device *device, enum refused_memory memory,
                        const struct refused *refused, uint64_t at_ns)
{
	static const char *const what[] = {
#define X(constant, text) [constant] = text,
	    REFUSED_MEMORY(X)
#undef X
	};
	const uint64_t mib = (uint64_t)1 << 20, unit = 2 * mib;
	char text[400], enough[96] = "";
	struct refusal refusal = {
	    .device = device, .refused = refused, .text = text, .at_ns = at_ns};

	refused_text(refused, what[memory], text, sizeof(text));
	actions_run(ACTION_REFUSED, &refusal);
	if (!refusal_is_new(memory, refused->reason))
		return;
	if (refused->reason == REFUSED_UNMOVABLE && refused->bytes <= device->id.memory)
		snprintf(enough, sizeof(enough), " `--memory %" PRIu64 "MiB` would be enough.",
		         (device_charged(device, SEGMENT_ON_DEVICE) +
		          (refused->bytes + unit - 1) / unit * unit + mib - 1) /
		             mib);
	log_line(refused_is_warned(refused->reason) ? LOG_WARNING : LOG_INFO, "gpu %d: %s%s%s",
	         device->id.ordinal, text, enough, refusal.more);
}

void refusal_note(struct device *device, enum refused_memory memory, const struct refused *refused)
{
	uint64_t now = clock_now(), at_ns = clock_of_day();
	struct counters *s = device->statistics;

	atomic_fetch_add_explicit(&device->refusals, 1, memory_order_relaxed);
	lock_acquire(&device->lock); /* the facts are of one refusal */
	statistics_begin(s);
	statistics_add(&s->refusals, 1);
	statistics_set(&s->refused_reason, refused->reason);
	statistics_set(&s->refused_bytes, refused->bytes);
	statistics_set(&s->refused_short, refused->lacking);
	statistics_set(&s->refused_limit, refused->limit);
	statistics_set(&s->refused_at, at_ns);
	statistics_end(s);
	lock_release(&device->lock);
	refusal_say(device, memory, refused, at_ns);
	/* Last, so that a reader finds the line with the holders. */
	event_note(.kind = EVENT_refusal, .device = device->id.ordinal, .begin_ns = now,
	           .a = refused->bytes, .b = refused->limit, .c = refused->reason);
}

void spill_note(struct device *device, uint64_t bytes, enum spill_reason reason,
                const struct spilled *what)
{
	struct counters *s = device->statistics;
	char size[32];

	statistics_begin(s);
	statistics_add(&s->spills, 1);
	statistics_add(&s->spilled_bytes, bytes);
	statistics_set(&s->spill_reason, reason);
	statistics_end(s);
	event_note(.kind = EVENT_spill, .device = device->id.ordinal, .a = bytes, .b = reason,
	           .c = device_used(device, SEGMENT_ON_DEVICE), .object = what->object,
	           .context = what->container ? event_context(what->container) : 0);
	log_once(LOG_INFO, "gpu %d: first spill to host memory, %s (%s)", device->id.ordinal,
	         units_format_size(bytes, size, sizeof(size)),
	         reason == SPILL_LIMIT     ? "the limit is reached"
	         : reason == SPILL_EVICTED ? "evicted"
	         : reason == SPILL_YIELDED ? "other jobs have claimed the device"
	                                   : "device full");
}
