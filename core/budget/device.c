/* SPDX-License-Identifier: MIT */
/*
 * Devices: their settings and their charges. Rules: runs inside the user's process; changes no
 * current context.
 */
#include "core/budget/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/applied.h"
#include "core/pages/page.h"
#include "core/rings/event.h"
#include "core/state/layout.h"

static struct segment_limit limit_of(const struct config_gpu *settings)
{
	return (struct segment_limit){
	    .bytes = settings->memory, .most = settings->memory_max, .evict = settings->evict};
}

/* Returns the limit that the job's processes keep to, as they told it last. */
static const struct segment_applied *device_applied(const struct device *device)
{
	return &device->segment->file->header.applied[device->index];
}

uint64_t device_limit_by(const struct device *device, const struct config_gpu *settings)
{
	struct segment_limit limit = limit_of(settings);

	/*
	 * A quota is the whole job's. A process outside its books cannot know how much of it is
	 * left.
	 */
	if (!device->is_in_books)
		return limit.bytes == CONFIG_UNLIMITED ? limit.bytes : 0;
	if (limit.most <= limit.bytes) /* it does not grow */
		return limit.bytes;
	return segment_limit_with(
	    &limit, atomic_load_explicit(&device_applied(device)->grown, memory_order_relaxed));
}

/* Reads the settings; with the lock held, so that no thread changes them meanwhile. */
static struct config_gpu device_settings_of(const struct device *device)
{
	struct config_gpu settings;
	uint64_t generation;

	publish_read(&device->settings, &settings, &generation);
	return settings;
}

static void tell_limit(const struct device *device, const struct verdict *verdict)
{
	event_note(.kind = EVENT_limit, .device = device->id.ordinal, .a = verdict->limit,
	           .b = verdict->limit_held, .c = device_used(device, SEGMENT_ON_DEVICE));
}

static void tell_share(const struct device *device, uint64_t share)
{
	event_note(.kind = EVENT_share, .device = device->id.ordinal, .a = share);
}

/* Returns the verdict by this process's ledger and the job's charges. */
static struct verdict device_verdict(struct device *device)
{
	struct ledger_copy ledger = ledger_read(device->ledger);
	struct standing standing = {.generation = device_job_generation(device),
	                            .charged = device_charged(device, SEGMENT_ON_DEVICE),
	                            .orphaned = segment_orphaned(device->segment, device->index)};

	return verdict_of(&ledger, 1, &standing);
}

void device_note_settings(struct device *device)
{
	struct verdict verdict = device_verdict(device);

	tell_limit(device, &verdict);
	tell_share(device, verdict.share);
}

/* Publishes the facts; with the lock held. */
static void publish_facts(struct device *device, const struct facts *facts)
{
	if (memcmp(&device->facts, facts, sizeof(*facts)) == 0)
		return;
	device->facts = *facts;
	publish_value(&device->ledger->facts, facts);
}

/*
 * Notes the facts in force; with the lock held, so that of several threads that note them the last
 * has seen the newest.
 */
static void note_locked(struct device *device, struct facts facts)
{
	const struct config_gpu settings = device_settings_of(device);
	struct verdict verdict, *told = &device->told;
	uint64_t limit = device_limit_by(device, &settings);

	facts.limit = limit;
	facts.grown = limit > settings.memory ? limit - settings.memory : 0;
	facts.share = settings.share;
	facts.evicted = settings.evict;
	publish_facts(device, &facts);
	page_note_host_limit(device->segment, device->index,
	                     settings.host_memory < CONFIG_AUTO ? settings.host_memory + 1 : 0);
	verdict = device_verdict(device);
	if (limit != told->limit || (told->limit_held > limit && verdict.limit_held == limit))
		tell_limit(device, &verdict);
	*told = verdict;
	atomic_store(&device->is_beyond, verdict.beyond != 0);
}

void device_note_limit(struct device *device)
{
	lock_acquire(&device->lock);
	note_locked(device, device->facts);
	lock_release(&device->lock);
}

/* Notes that memory was given back: memory beyond the limit may be gone. */
static void note_given_back(struct device *device)
{
	if (atomic_load_explicit(&device->is_beyond, memory_order_relaxed))
		device_note_limit(device);
}

void device_note_blocker(struct device *device, uint64_t generation, enum move_pending why)
{
	lock_acquire(&device->lock);
	/* This generation counts the settings that this process published, not the job's. */
	if (publish_version(&device->settings) == generation) {
		struct facts facts = device->facts;

		facts.blocker = why;
		facts.blocker_generation = facts.generation;
		note_locked(device, facts);
	}
	lock_release(&device->lock);
}

void device_note_elastic(struct device *device, enum elastic elastic)
{
	struct facts facts;

	lock_acquire(&device->lock);
	facts = device->facts;
	facts.elastic = elastic;
	publish_facts(device, &facts);
	atomic_store(&device->elastic, elastic);
	lock_release(&device->lock);
}

enum elastic device_elastic(const struct device *device)
{
	return (enum elastic)atomic_load_explicit(&device->elastic, memory_order_relaxed);
}

void device_note_spare(struct device *device, enum segment_tier tier, int64_t bytes)
{
	atomic_fetch_add_explicit(&device->ledger->spare[tier], (uint64_t)bytes,
	                          memory_order_relaxed);
}

void device_note_pinned(struct device *device, int64_t bytes)
{
	atomic_fetch_add_explicit(&device->ledger->pinned, (uint64_t)bytes, memory_order_relaxed);
}

uint64_t device_spare(const struct device *device, enum segment_tier tier)
{
	return atomic_load_explicit(&device->ledger->spare[tier], memory_order_relaxed);
}

uint64_t device_job_generation(const struct device *device)
{
	return atomic_load_explicit(&device_applied(device)->generation, memory_order_acquire);
}

void device_agree(struct device *device, uint64_t generation)
{
	struct facts facts;

	lock_acquire(&device->lock);
	facts = device->facts;
	if (facts.generation && facts.generation < generation) {
		/* The settings are the same, and so are the findings under them. */
		if (facts.blocker_generation == facts.generation)
			facts.blocker_generation = generation;
		facts.generation = generation;
		publish_facts(device, &facts);
	}
	lock_release(&device->lock);
}

/* Returns the hash of the settings' words. */
static uint64_t device_hash_of(const struct config_gpu *settings)
{
	uint64_t hash = HASH_NOTHING;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		hash = hash_word(hash, settings->of[key]);
	return hash;
}

/*
 * Applies new settings for the job; with the lock held. Returns their generation, a number that the
 * job's segment counts up. segment_apply_limit() comes first: from then on no process charges under
 * the old limit, and the growth of the old limit is not added to the new one.
 */
static uint64_t apply_limit(struct device *device, const struct config_gpu *settings)
{
	struct segment_limit limit = limit_of(settings);
	const struct applied_limit told = {/* An evicted job leaves its room to other jobs. */
	                                   .limit = settings->evict ? 0 : settings->memory,
	                                   .settings = device_hash_of(settings),
	                                   .generation = device->facts.generation};
	uint64_t generation;

	if (!device->is_in_books)
		limit.bytes = limit.most = device_limit_by(device, settings);
	generation = segment_apply_limit(device->segment, device->index, &told);
	segment_set_limit(device->segment, device->index, &limit);
	return generation;
}

bool device_apply(struct device *device, const struct config_gpu *settings)
{
	struct config_gpu before;
	uint64_t share_before;
	struct facts facts;
	bool changed;

	lock_acquire(&device->lock);
	facts = device->facts;
	before = device_settings_of(device);
	changed = !facts.generation || memcmp(&before, settings, sizeof(before)) != 0;
	share_before = facts.share;
	if (changed) {
		facts.generation = apply_limit(device, settings);
		publish_value(&device->settings, settings);
	}
	note_locked(device, facts);
	lock_release(&device->lock);
	if (share_before != settings->share) {
		tell_share(device, settings->share);
		if (!share_before || !settings->share)
			event_note(.kind = settings->share ? EVENT_resume : EVENT_pause,
			           .device = device->id.ordinal);
	}
	return changed;
}

/* Notes new charges: a thread that looks at the driver's figures meanwhile is to look again. */
static void note_charges(struct device *device)
{
	atomic_store_explicit(&device->has_new_charges, true, memory_order_relaxed);
}

/* The answer of the thread's last charge. */
static __thread int charge_answer __attribute__((tls_model("initial-exec")));

static int note_answer(int answer)
{
	if (charge_answer != answer)
		charge_answer = answer;
	return answer;
}

bool device_is_held_up(void)
{
	return charge_answer == -EBUSY;
}

static int charge_limited(struct device *device, uint64_t bytes, uint64_t most, bool is_moved)
{
	note_charges(device);
	return note_answer(segment_charge(device->segment, device->index, bytes, most, is_moved));
}

int device_charge(struct device *device, uint64_t bytes)
{
	return charge_limited(device, bytes, CONFIG_UNLIMITED, false);
}

int device_charge_moved(struct device *device, uint64_t bytes, uint64_t most)
{
	return charge_limited(device, bytes, most, true);
}

static int charge_within(struct device *device, enum segment_tier tier, uint64_t bytes,
                         uint64_t limit)
{
	note_charges(device);
	return note_answer(segment_reserve(device->segment, device->index, tier, bytes, limit));
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

void device_uncharge(struct device *device, enum segment_tier tier, uint64_t bytes)
{
	segment_unreserve(device->segment, device->index, tier, bytes);
	note_charges(device);
	note_given_back(device);
}

int device_charge_driver(struct device *device, uint64_t bytes)
{
	int error = device_charge_taken(device, bytes);

	if (!error)
		segment_note_driver(device->segment, device->index, (int64_t)bytes);
	return error;
}

void device_uncharge_driver(struct device *device, uint64_t bytes)
{
	segment_note_driver(device->segment, device->index, -(int64_t)bytes);
	device_uncharge(device, SEGMENT_ON_DEVICE, bytes);
}

void device_uncharge_exported(struct device *device, uint64_t key, uint64_t bytes)
{
	uint64_t left = 0;

	if (key)
		left = segment_export_left(device->segment, key);
	if (left < bytes)
		device_uncharge(device, SEGMENT_ON_DEVICE, bytes - left);
	if (left) {
		atomic_fetch_add(&device->given_up, left);
		note_given_back(device);
	}
}

uint64_t device_uncharged(struct device *device)
{
	uint64_t bytes = atomic_load(&device->given_up),
	         most = segment_orphaned(device->segment, device->index);

	/*
	 * given_up counts exported memory that this process freed while another one had it. Some of
	 * it may have gone since. segment_orphaned() has the part of the job that still exists.
	 */
	if (bytes > most && atomic_compare_exchange_strong(&device->given_up, &bytes, most))
		bytes = most;
	return bytes + atomic_load(&device->imported);
}

void device_count_elsewhere(struct device *device, int64_t change)
{
	atomic_fetch_add(&device->elsewhere, (uint64_t)change);
}

uint64_t device_charged(struct device *device, enum segment_tier tier)
{
	return segment_charged(device->segment, device->index, tier);
}

uint64_t device_used(const struct device *device, enum segment_tier tier)
{
	return ledger_charged(device->ledger, tier);
}
