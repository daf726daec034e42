/* Devices: their settings and what is charged to them. Rules: runs inside the user's process; changes no current context. */
#include "core/budget/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/state/event.h"

static struct segment_limit limit_of(const struct config_gpu *settings)
{
	return (struct segment_limit){.bytes = settings->memory_limit,
	                              .most = settings->memory_limit_max,
	                              .evict = settings->evict};
}

uint64_t device_limit_by(const struct device *device, const struct config_gpu *settings)
{
	struct segment_limit limit = limit_of(settings);

	/* A quota is the whole job's. Who is not in its books cannot know what of it the others have left. */
	if (!device->segment)
		return limit.bytes == CONFIG_UNLIMITED ? limit.bytes : 0;
	return segment_limit_with(&limit, segment_grown(device->segment, device->index));
}

uint64_t device_limit(struct device *device)
{
	const struct config_gpu settings = {.memory_limit = device_setting(device, memory_limit),
	                                    .memory_limit_max =
	                                        device_setting(device, memory_limit_max)};

	return device_limit_by(device, &settings);
}

bool device_is_evicted(struct device *device)
{
	return device_setting(device, evict);
}

uint64_t device_limit_of_movable(struct device *device)
{
	struct config_gpu settings = device_settings(device);

	return settings.evict ? 0 : device_limit_by(device, &settings);
}

static void note_limit(const struct device *device)
{
	const struct statistics *s = device->statistics;

	event_note(.kind = EVENT_limit, .device = device->id.ordinal,
	           .a = statistics_get(&s->limit_set), .b = statistics_get(&s->limit_held),
	           .c = statistics_get(&s->device_used));
}

static void note_share(const struct device *device)
{
	event_note(.kind = EVENT_share, .device = device->id.ordinal,
	           .a = statistics_get(&device->statistics->share_set));
}

void device_note_settings(struct device *device)
{
	note_limit(device);
	note_share(device);
}

/*
 * With the lock held, so that of those who note it at a time the last has seen what is in force. is_anew: under settings of
 * which nobody knows yet what they cannot move.
 */
static void note_limit_locked(struct device *device, bool is_anew)
{
	const struct config_gpu *settings = &device->settings;
	uint64_t limit = device_limit_by(device, settings);
	uint64_t used = device_charged(device, SEGMENT_ON_DEVICE), before, held_before;
	struct statistics *s = device->statistics;

	before = atomic_exchange(&s->limit_set, limit);
	statistics_set(&s->limit_grown,
	               limit > settings->memory_limit ? limit - settings->memory_limit : 0);
	/* What is in use already is made less by the mover alone, who knows what it cannot move. */
	held_before = atomic_exchange(&s->limit_held, used > limit ? used : limit);
	if (limit != before || (held_before > limit && used <= limit))
		note_limit(device);
	statistics_set(&s->evicted, settings->evict);
	if (used <= (settings->evict ? 0 : limit))
		statistics_set(&s->held_reason, HELD_NONE);
	else if (is_anew || statistics_get(&s->held_reason) == HELD_NONE)
		statistics_set(&s->held_reason, statistics_get(&s->elastic) == ELASTIC_YES
		                                    ? HELD_PENDING
		                                    : HELD_FOREIGN);
}

void device_note_limit(struct device *device)
{
	lock_acquire(&device->lock);
	note_limit_locked(device, false);
	lock_release(&device->lock);
}

uint64_t device_generation(const struct device *device)
{
	return publish_turn(&device->published);
}

void device_note_held(struct device *device, uint64_t generation, enum held_reason why)
{
	lock_acquire(&device->lock);
	if (device_generation(device) == generation)
		statistics_set(&device->statistics->held_reason, why);
	note_limit_locked(device, false);
	lock_release(&device->lock);
}

bool device_judges_growth(struct device *device, uint64_t interval_ns)
{
	return device->segment &&
	       segment_judges_growth(device->segment, device->index, interval_ns);
}

void device_grow(struct device *device, uint64_t limit, uint64_t bytes)
{
	lock_acquire(&device->lock);
	if (device->segment)
		segment_set_grown(device->segment, device->index, limit, bytes);
	lock_release(&device->lock);
}

/* With the lock held. */
static void write_settings(struct device *device, const struct config_gpu *settings)
{
#define X(field, kind, builtin, choices, meaning) \
	__atomic_store_n(&device->settings.field, settings->field, __ATOMIC_RELEASE);
	CONFIG_GPU_KEYS(X)
#undef X
	publish_value(&device->published, settings);
}

bool device_apply(struct device *device, const struct config_gpu *settings)
{
	uint64_t share_before;
	bool changed;

	lock_acquire(&device->lock);
	changed = memcmp(&device->settings, settings, sizeof(*settings)) != 0;
	/* First: what the old limit has grown by is never added to the new one. */
	if (device->segment) {
		struct segment_limit limit = limit_of(settings);

		/* What is evicted leaves its room to other jobs. */
		segment_claim(device->segment, device->index,
		              settings->evict ? 0 : settings->memory_limit);
		/* From here on nothing is charged under the old limit, so what is said below stays true. */
		segment_set_limit(device->segment, device->index, &limit);
	}
	write_settings(device, settings);
	note_limit_locked(device, changed); /* what could not move before is tried again */
	lock_release(&device->lock);
	share_before = atomic_exchange(&device->statistics->share_set, settings->share);
	if (share_before != (uint64_t)settings->share) {
		note_share(device);
		if (!share_before || !settings->share)
			event_note(.kind = settings->share ? EVENT_resume : EVENT_pause,
			           .device = device->id.ordinal);
	}
	return changed;
}

uint64_t device_read_settings(struct device *device, struct config_gpu *settings)
{
	uint64_t generation;

	if (!publish_read(&device->published, settings, &generation)) {
		lock_acquire(&device->lock);
		*settings = device->settings;
		generation = device_generation(device);
		lock_release(&device->lock);
	}
	return generation;
}

struct config_gpu device_settings(struct device *device)
{
	struct config_gpu settings;

	device_read_settings(device, &settings);
	return settings;
}

/* Charges a process that has no segment. */
static int charge_own(struct device *device, enum segment_side side, uint64_t bytes, uint64_t limit)
{
	uint64_t used = atomic_load(&device->own_charge[side]);

	do {
		if (bytes > UINT64_MAX - used || used + bytes > limit)
			return -ENOSPC;
	} while (!atomic_compare_exchange_weak(&device->own_charge[side], &used, used + bytes));
	return 0;
}

/* The limit changes under the same lock. */
static int charge_own_limited(struct device *device, uint64_t bytes, uint64_t most, bool is_moved)
{
	uint64_t limit;
	int error;

	lock_acquire(&device->lock);
	limit = is_moved && device->settings.evict ? 0 : device_limit_by(device, &device->settings);
	error = charge_own(device, SEGMENT_ON_DEVICE, bytes, limit < most ? limit : most);
	lock_release(&device->lock);
	return error;
}

static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = statistics_get(peak);

	while (value > seen && !atomic_compare_exchange_weak(peak, &seen, value))
		;
}

static int charged(struct device *device, enum segment_side side, uint64_t bytes, int error)
{
	struct statistics *s = device->statistics;

	if (error)
		return error;
	if (side == SEGMENT_ON_DEVICE)
		raise_peak(&s->device_peak, statistics_add(&s->device_used, bytes) + bytes);
	else
		raise_peak(&s->host_peak, statistics_add(&s->host_used, bytes) + bytes);
	return 0;
}

static int charge_limited(struct device *device, uint64_t bytes, uint64_t most, bool is_moved)
{
	int error = device->segment
	                ? segment_charge(device->segment, device->index, bytes, most, is_moved)
	                : charge_own_limited(device, bytes, most, is_moved);

	return charged(device, SEGMENT_ON_DEVICE, bytes, error);
}

int device_charge(struct device *device, uint64_t bytes)
{
	return charge_limited(device, bytes, CONFIG_UNLIMITED, false);
}

int device_charge_moved(struct device *device, uint64_t bytes, uint64_t most)
{
	return charge_limited(device, bytes, most, true);
}

static int charge_within(struct device *device, enum segment_side side, uint64_t bytes,
                         uint64_t limit)
{
	int error = device->segment
	                ? segment_reserve(device->segment, device->index, side, bytes, limit)
	                : charge_own(device, side, bytes, limit);

	return charged(device, side, bytes, error);
}

int device_charge_host(struct device *device, uint64_t bytes, uint64_t limit)
{
	return charge_within(device, SEGMENT_ON_HOST, bytes, limit);
}

int device_charge_taken(struct device *device, uint64_t bytes)
{
	int error = charge_within(device, SEGMENT_ON_DEVICE, bytes, CONFIG_UNLIMITED);

	if (!error)
		device_note_limit(device);
	return error;
}

void device_uncharge(struct device *device, enum segment_side side, uint64_t bytes)
{
	struct statistics *s = device->statistics;

	if (device->segment)
		segment_unreserve(device->segment, device->index, side, bytes);
	else
		atomic_fetch_sub(&device->own_charge[side], bytes);
	statistics_sub(side == SEGMENT_ON_DEVICE ? &s->device_used : &s->host_used, bytes);
	if (statistics_get(&s->held_reason) != HELD_NONE)
		device_note_limit(device);
}

void device_uncharge_exported(struct device *device, uint64_t key, uint64_t bytes)
{
	uint64_t left = 0;

	if (key)
		left = segment_export_left(device->segment, key);
	if (left < bytes)
		device_uncharge(device, SEGMENT_ON_DEVICE, bytes - left);
	if (!left)
		return;
	statistics_sub(&device->statistics->device_used, left);
	if (statistics_get(&device->statistics->held_reason) != HELD_NONE)
		device_note_limit(device);
}

uint64_t device_orphaned(const struct device *device)
{
	return device->segment ? segment_orphaned(device->segment, device->index) : 0;
}

bool device_let_orphans_go(struct device *device)
{
	return device->segment && segment_judge_exports(device->segment);
}

bool device_can_hold(const struct device *device, uint64_t bytes)
{
	return !device->id.memory || bytes <= device->id.memory;
}

void device_count_elsewhere(struct device *device, int64_t change)
{
	atomic_fetch_add(&device->elsewhere, (uint64_t)change);
}

uint64_t device_elsewhere(const struct device *device)
{
	return atomic_load(&device->elsewhere);
}

uint64_t device_charged(struct device *device, enum segment_side side)
{
	return device->segment ? segment_charged(device->segment, device->index, side)
	                       : atomic_load(&device->own_charge[side]);
}
