/* SPDX-License-Identifier: MIT */
/*
 * The world of lending: jobs on one device, a clock, and memory that moves at the speed of a link.
 */
#ifndef SPILLWAY_TEST_LENDING_WORLD_H
#define SPILLWAY_TEST_LENDING_WORLD_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "core/modules/sharing/bytes.h"
#include "core/modules/sharing/grant.h"
#include "tests/unit/scratch.h"

#define MIB    ((uint64_t)1 << 20)
#define MS     1000000ull
#define SECOND (1000 * MS)

enum { JOBS_MAX = 16, TICK_MS = 10 };

#define DEVICE (8192 * MIB)
#define LINK   (4096 * MIB) /* a second */
#define CHUNK  (32 * MIB)

/* A job of one process in this world. */
struct world_job {
	bool lives, is_frozen, is_liar;
	uint64_t frozen_until;
	struct peer_record record;
	struct grant grant;
	struct grant_answer answer;
	uint64_t limit, held, on_host, fixed; /* fixed: of what is held, what cannot move */
	uint64_t must, must_since;
	uint64_t takes_ns, tries_until; /* its call takes so long; until it has been tried */
	bool must_was_had, makes_place; /* what must be there takes the place of what need not be */
	uint64_t used_ns;               /* when it last worked */
	uint64_t idle_yield;
	bool works;
	uint64_t hidden_until; /* it has no peer record until then */
	uint64_t starts_until; /* it has not written what it holds, and decides nothing */
	bool is_blind;         /* it cannot ask what is free */
	/* what happened */
	uint64_t gave, took, gave_ns, took_ns, moved, woke_ns;
	uint64_t told_gave; /* by the decisions */
};

static struct world {
	uint64_t now;
	int count;
	struct world_job job[JOBS_MAX];
	uint64_t moved;
	uint64_t piece; /* memory moves in such; 0: to the byte */
	uint64_t longest_claim;
	int refused, served; /* calls that must have memory on the device */
	uint8_t highest;     /* priority of those who claimed when all looked last */
} world;

/* For what is looked at in each tick: the suite writes down wherever a ck_assert is passed. */
#define always(condition)                               \
	do {                                            \
		if (!(condition))                       \
			ck_abort_msg("%s", #condition); \
	} while (0)

static uint64_t free_bytes(void)
{
	uint64_t held = 0;

	for (int i = 0; i < world.count; i++)
		held += world.job[i].lives ? world.job[i].held : 0;
	always(held <= DEVICE);
	return DEVICE - held;
}

static struct world_job *add_job(uint8_t priority, uint64_t limit)
{
	struct world_job *job = &world.job[world.count++];

	*job = (struct world_job){.lives = true,
	                          .limit = limit,
	                          .works = true,
	                          .used_ns = world.now,
	                          .idle_yield = 30 * SECOND};
	job->record.job = (uint64_t)world.count;
	job->record.token = (uint64_t)world.count;
	job->record.priority = priority;
	job->answer.bound = UINT64_MAX;
	return job;
}

/* What is new is on the device while it has room and the job may hold it; else on the host. */
static void grow_by(struct world_job *job, uint64_t bytes)
{
	uint64_t bound = least(job->limit, job->answer.bound);
	uint64_t fits = least(least(bytes, free_bytes()), minus(bound, job->held)) / CHUNK * CHUNK;

	job->held += fits;
	job->on_host += bytes - fits;
}

static inline void shrink_by(struct world_job *job, uint64_t bytes)
{
	uint64_t from_host = least(bytes, job->on_host);

	job->on_host -= from_host;
	job->held -= least(bytes - from_host, job->held - job->fixed);
}

static bool is_frozen(const struct world_job *job)
{
	return world.now < job->frozen_until;
}

static bool has_record(const struct world_job *job)
{
	return job->lives && world.now >= job->hidden_until;
}

static bool is_blocked(const struct world_job *job)
{
	return job->on_host && (free_bytes() < CHUNK || job->held >= job->answer.bound);
}

static void fill_record(struct world_job *job)
{
	struct peer_record *record = &job->record;

	record->beat_ns = world.now;
	if (world.now < job->starts_until)
		return;
	record->limit = job->limit;
	record->held = job->held;
	record->movable = job->held - job->fixed;
	record->on_host = job->on_host;
	record->link = LINK;
	if (job->works)
		job->used_ns = world.now;
	record->idle_since_ns = world.now - job->used_ns >= job->idle_yield ? job->used_ns : 0;
}

/* A peer record that says whatever it likes, but what makes it a peer record of another user's. */
static void lie(struct world_job *job)
{
	struct peer_record *record = &job->record;

	if (scratch_random() % 8 == 0) {
		unsigned char *bytes = (unsigned char *)&record->limit;

		for (size_t i = 0; i < (size_t)((char *)&record->gang - (char *)&record->limit);
		     i++)
			bytes[i] = (unsigned char)scratch_random();
		if (scratch_random() % 2) {
			record->asks_job = 1 + scratch_random() % (uint64_t)world.count;
			record->asks_owner = 0;
			record->asks_down_to = 0;
			record->claim = DEVICE;
			record->claim_since_ns = 1 + scratch_random() % 2;
		}
	}
	record->context = scratch_random() % 2 ? scratch_random() : 0;
	record->priority = PRIORITY_NORMAL;
	record->beat_ns = world.now;
}

/*
 * All decide by the same peer records: those that were there before anybody decided. From one job
 * to the next a single one of the others changes.
 */
static void decide(void)
{
	static struct peers all, others;
	int at = 0;

	world.highest = 0;
	all.count = 0;
	for (int i = 0; i < world.count; i++) {
		const struct world_job *job = &world.job[i];

		if (!has_record(job))
			continue;
		if (job->record.claim && job->record.priority > world.highest)
			world.highest = job->record.priority;
		all.other[all.count++] =
		    (struct peers_other){.owner = job->is_liar ? 1 : 0,
		                         .is_silent = world.now - job->record.beat_ns > 3 * SECOND,
		                         .record = job->record};
	}
	others.count = all.count - 1;
	for (int i = 0; i < others.count; i++)
		others.other[i] = all.other[i + 1];
	for (int i = 0; i < world.count; i++) {
		struct world_job *job = &world.job[i];
		struct grant_needs needs = {.now_ns = world.now,
		                            .memory = DEVICE,
		                            .free = job->is_blind ? UINT64_MAX : free_bytes(),
		                            .must = job->must,
		                            .tries = job->tries_until != 0,
		                            .is_blocked = is_blocked(job)};

		if (!has_record(job))
			continue;
		if (!is_frozen(job) && !job->is_liar && world.now >= job->starts_until) {
			grant_decide(&job->grant, &needs, &job->record, 0, &others, &job->answer);
			job->told_gave += job->answer.gave;
		}
		others.other[at] = all.other[at];
		at++;
	}
}

/* Nobody who works gives what it is entitled to, but to a higher priority. */
static void check_gives(const struct world_job *job, uint64_t bytes)
{
	if (bytes && !job->record.idle_since_ns && world.highest <= job->record.priority &&
	    job->held <= job->record.entitled)
		ck_abort_msg("job %d of class %d gives %llu of %llu MiB, and is entitled to %llu",
		             (int)(job - world.job), job->record.priority,
		             (unsigned long long)(bytes / MIB),
		             (unsigned long long)(job->held / MIB),
		             (unsigned long long)(job->record.entitled / MIB));
}

/* Of what leaves the last piece is enough to make up for all; what comes must fit. */
static uint64_t in_pieces(uint64_t bytes, bool leaves)
{
	return world.piece ? (bytes + (leaves ? world.piece - 1 : 0)) / world.piece * world.piece
	                   : bytes;
}

/*
 * Memory that is to leave goes at the speed of the link; what may come back does, where it has
 * room.
 */
static void move(struct world_job *job)
{
	uint64_t slice = LINK / 1000 * TICK_MS, bound = least(job->limit, job->answer.bound), bytes;

	job->makes_place &= job->answer.bound != UINT64_MAX;
	if (job->held > bound) {
		bytes = in_pieces(least(job->held - bound, slice), true);
		bytes = least(bytes, job->held - job->fixed);
		if (!job->makes_place)
			check_gives(job, bytes);
		job->held -= bytes;
		job->on_host += bytes;
		job->gave += bytes;
		/* Less than a chunk is no change of hands. */
		if (bytes >= 2 * MIB && !job->makes_place)
			job->gave_ns = world.now;
	} else {
		bytes = least(least(job->on_host, slice), least(bound - job->held, free_bytes()));
		bytes = in_pieces(bytes, false);
		/* What has just been given does not come back, but to who works again. */
		always(!bytes || !job->gave_ns || job->woke_ns >= job->gave_ns ||
		       world.now - job->gave_ns >= SECOND);
		job->held += bytes;
		job->on_host -= bytes;
		job->took += bytes;
		job->took_ns = bytes ? world.now : job->took_ns;
	}
	job->moved += bytes;
	world.moved += bytes;
}

/* Returns what is free, and what all others who run would give to a claim of this job. */
static uint64_t could_have(const struct world_job *to)
{
	uint64_t bytes = free_bytes();

	for (int i = 0; i < world.count; i++) {
		const struct world_job *job = &world.job[i];
		const struct peer_record *record = &job->record;
		bool gives_all = record->idle_since_ns || record->priority < to->record.priority;
		uint64_t yields = gives_all ? job->held : minus(job->held, record->entitled);

		if (job == to || !has_record(job) || job->is_liar ||
		    (record->cooldown_until_ns > world.now &&
		     record->priority >= to->record.priority))
			continue;
		bytes += least(yields, job->held - job->fixed);
	}
	return bytes;
}

/* Returns whether nobody was frozen lately, and nobody of higher priority claims, too. */
static bool is_undisturbed(const struct world_job *job)
{
	for (int i = 0; i < world.count; i++)
		if (world.job[i].is_liar || world.now < world.job[i].frozen_until + 4 * SECOND)
			return false;
	return world.highest <= job->record.priority;
}

/*
 * A call that waits for memory on the device tries as soon as it is told to, and is refused where
 * the device is full of what others need, or one of higher priority took what was made free.
 */
static void try_must(struct world_job *job)
{
	bool may_insist = job->answer.was_short && world.now - job->must_since < 3 * SECOND;

	if (!job->must ||
	    (job->tries_until ? world.now < job->tries_until : !job->answer.must_is_decided))
		return;
	if (job->takes_ns && !job->tries_until) {
		job->tries_until = world.now + job->takes_ns;
		return;
	}
	job->tries_until = 0;
	job->must_was_had = free_bytes() >= job->must;
	if (job->must_was_had) {
		job->held += job->must;
		job->fixed += job->must;
		job->makes_place = true;
	} else if (may_insist) {
		return;
	} else if (is_undisturbed(job) && job->grant.given < job->must &&
	           could_have(job) >= job->must + JOBS_MAX * CHUNK) {
		ck_abort_msg("job %d is refused %llu MiB, where others would give %llu",
		             (int)(job - world.job), (unsigned long long)(job->must / MIB),
		             (unsigned long long)(could_have(job) / MIB));
	}
	world.refused += !job->must_was_had;
	world.served += job->must_was_had;
	job->must = 0;
}

static int grants(void)
{
	int count = 0;

	for (int i = 0; i < world.count; i++)
		count += world.job[i].lives && !is_frozen(&world.job[i]) &&
		         world.job[i].record.asks_job && world.job[i].answer.why == CLAIM_IS_MET &&
		         !world.job[i].is_liar;
	return count;
}

static void tick(void)
{
	world.now += TICK_MS * MS;
	for (int i = 0; i < world.count; i++) {
		struct world_job *job = &world.job[i];

		if (!job->lives || is_frozen(job))
			continue;
		if (job->is_liar)
			lie(job);
		else
			fill_record(job);
	}
	decide();
	always(grants() <= 1);
	for (int i = 0; i < world.count; i++) {
		struct world_job *job = &world.job[i];

		if (!job->lives || is_frozen(job) || job->is_liar)
			continue;
		try_must(job);
		move(job);
		/* How long one claim lasts. */
		if (job->record.claim && job->grant.began_ns &&
		    world.now - job->grant.began_ns > world.longest_claim)
			world.longest_claim = world.now - job->grant.began_ns;
	}
	free_bytes();
}

static void run(uint64_t ns)
{
	for (uint64_t until = world.now + ns; world.now < until;)
		tick();
}

static void start(void)
{
	memset(&world, 0, sizeof world);
	world.now = 1000 * SECOND;
}

/* Returns how long it takes until the job has all on the device. */
static inline uint64_t until_all_is_there(struct world_job *job)
{
	uint64_t began = world.now;

	while (job->on_host && world.now - began < 600 * SECOND)
		tick();
	ck_assert_uint_eq(job->on_host, 0);
	return world.now - began;
}

static inline uint64_t copies(uint64_t bytes)
{
	return bytes * 1000 / LINK * MS;
}

#endif
