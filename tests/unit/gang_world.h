/* SPDX-License-Identifier: MIT */
/*
 * The world of exclusive turns: devices, memory that leaves and comes, and processes. These look at
 * each other now and then, are stopped at any moment, or die. A millisecond is a step of the world.
 */
#ifndef SPILLWAY_TEST_GANG_WORLD_H
#define SPILLWAY_TEST_GANG_WORLD_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/modules/sharing/gang.h"

#define MS ((uint64_t)1000000)
#define S  (1000 * MS)

enum { DEVICES = 4, PROCESSES = 64, JOBS = 17, CAPACITY = 100000, MARGIN = 1000 };

static struct process {
	int job;
	unsigned int devices; /* a bit each */
	int size, on_device[DEVICES];
	struct gang gang;
	struct gang_member told; /* its peer record */
	bool is_there, is_paused, is_busy;
	bool is_stuck; /* its memory does not leave */
	uint64_t frozen_until, look_at, tell_at;
	/* books */
	uint64_t worked_ms, held_ms, longest_ms;
	int takes; /* how often it began to take its turn */
} process[PROCESSES];

static int processes;
static uint64_t now, random_state;
static uint64_t host_room;
static int link = 100; /* memory that moves in a millisecond, each way */
static uint64_t worked_ms[JOBS], half_ms[JOBS], busy_ms[DEVICES];

static uint64_t random_below(uint64_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % n;
}

static void begin_world(uint64_t seed)
{
	memset(process, 0, sizeof(process));
	memset(worked_ms, 0, sizeof(worked_ms));
	memset(half_ms, 0, sizeof(half_ms));
	memset(busy_ms, 0, sizeof(busy_ms));
	processes = 0;
	now = 1000 * S;
	random_state = seed;
	host_room = 1ull << 40;
	link = 100;
}

/* Adds a process of a job, which holds so much on each of these devices. */
static struct process *add(int job, unsigned int devices, int size, uint64_t length)
{
	struct process *p = &process[processes++];
	int k = 0;

	*p = (struct process){.job = job,
	                      .devices = devices,
	                      .size = size,
	                      .is_there = true,
	                      .is_busy = true,
	                      .look_at = now};
	p->gang.own = (struct gang_member){.process = (uint64_t)processes,
	                                   .job = (uint64_t)job + 100,
	                                   .is_exclusive = true,
	                                   .length_ns = length};
	for (int d = 0; d < DEVICES; d++)
		if (devices >> d & 1)
			p->gang.own.device[k++] = (uint32_t)d + 7;
	p->gang.own.bytes = (uint64_t)k * (uint64_t)size;
	p->gang.own.exchange_ns = (uint64_t)(size / link) * MS;
	return p;
}

static bool is_frozen(const struct process *p)
{
	return now < p->frozen_until;
}

static bool lives(const struct process *p)
{
	return p->is_there && !is_frozen(p);
}

static bool wants(const struct process *p)
{
	return p->is_busy && !p->is_paused;
}

/* Returns whether its launches pass now: it has told the others so, not long ago. */
static bool runs(const struct process *p)
{
	return lives(p) && !gang_holds(p->gang.own.state) && !gang_holds(p->told.state) &&
	       p->gang.own.since_ns && now < p->told.beat_ns + GANG_LEASE_NS;
}

static int on_device(int d, const struct process *but)
{
	int sum = 0;

	for (int i = 0; i < processes; i++)
		if (process[i].is_there && &process[i] != but)
			sum += process[i].on_device[d];
	return sum;
}

static int lesser(int a, int b)
{
	return a < b ? a : b;
}

/* Lets memory leave, or come, as the state has it; the device refuses what it has no room for. */
static void move(struct process *p)
{
	for (int d = 0; d < DEVICES; d++) {
		int others, room, target = p->size;

		if (!(p->devices >> d & 1))
			continue;
		others = on_device(d, p);
		room = CAPACITY - others;
		if (gang_yields(p->gang.own.state))
			target = 0;
		else if (p->gang.own.state == GANG_TAKES)
			target = lesser(target, (int)gang_room(CAPACITY, (uint64_t)others, MARGIN,
			                                       (uint64_t)p->on_device[d], 1000));
		if (p->on_device[d] > target)
			p->on_device[d] -= p->is_stuck ? 0 : lesser(link, p->on_device[d] - target);
		else if (p->on_device[d] < lesser(target, room))
			p->on_device[d] += lesser(link, lesser(target, room) - p->on_device[d]);
		if (others + p->on_device[d] > CAPACITY)
			ck_abort_msg("device %d holds more than it can", d);
	}
}

static bool is_at(const struct process *p, bool back)
{
	for (int d = 0; d < DEVICES; d++)
		if ((p->devices >> d & 1) &&
		    (back ? p->on_device[d] < lesser(p->size, CAPACITY - MARGIN - on_device(d, p))
		          : p->on_device[d] > 0))
			return false;
	return true;
}

static void look(struct process *p)
{
	struct gang_member others[GANG_MEMBERS];
	struct gang_facts facts = {.wants = wants(p),
	                           .has_left = is_at(p, false),
	                           .is_back = is_at(p, true),
	                           .host_room = host_room};
	uint32_t before = p->gang.own.state;
	int count = 0;

	for (int i = 0; i < processes; i++)
		if (process[i].is_there && &process[i] != p && process[i].told.process)
			others[count++] = process[i].told;
	gang_step(&p->gang, now, &facts, others, count);
	p->takes += p->gang.own.state == GANG_TAKES && before != GANG_TAKES;
}

/* Has a process look; some time after that the others may see what it decided. */
static void act(struct process *p)
{
	if (p->tell_at && now >= p->tell_at) {
		p->told = p->gang.own;
		/* The beat is of when it is told. */
		p->tell_at = 0;
		p->look_at = now + (5 + random_below(10)) * MS;
	} else if (!p->tell_at && now >= p->look_at) {
		look(p);
		p->tell_at = now + random_below(3) * MS;
	}
}

/* Nobody goes on without turns beside one who lives and has an exclusive one. */
static void check_that_who_gave_up_waits(int d, const struct process *holder)
{
	for (int i = 0; i < processes; i++)
		if ((process[i].devices >> d & 1) && process[i].job != holder->job &&
		    process[i].gang.own.why == GANG_WAITED && runs(&process[i]))
			ck_abort_msg("job %d runs beside job %d at %lu ms", process[i].job,
			             holder->job, (unsigned long)(now / MS));
}

static void count_work(void)
{
	for (int d = 0; d < DEVICES; d++) {
		struct process *one = NULL;

		for (int i = 0; i < processes; i++) {
			struct process *p = &process[i];

			if (!(p->devices >> d & 1) || !runs(p) || p->gang.own.why)
				continue;
			/* One job has a device. */
			if (one && one->job != p->job)
				ck_abort_msg(
				    "jobs %d (%s, %d) and %d (%s, %d) on device %d at %lu ms",
				    one->job, gang_state_name(one->gang.own.state),
				    (int)(one - process), p->job,
				    gang_state_name(p->gang.own.state), i, d,
				    (unsigned long)(now / MS));
			one = p;
		}
		if (one)
			check_that_who_gave_up_waits(d, one);
		busy_ms[d] += one && wants(one);
	}
}

/* Looks for a job of which one process has its turn while another has not, for long. */
static void look_for_halves(void)
{
	int lively[JOBS] = {0}, with_turn[JOBS] = {0};

	for (int i = 0; i < processes; i++) {
		struct process *p = &process[i];

		if (!lives(p) || p->gang.own.why)
			continue;
		lively[p->job]++;
		with_turn[p->job] += p->gang.own.state == GANG_HAS;
	}
	for (int job = 0; job < JOBS; job++) {
		bool all = with_turn[job] == lively[job];

		half_ms[job] = with_turn[job] && !all ? half_ms[job] + 1 : 0;
		if (half_ms[job] >= 1500)
			ck_abort_msg("job %d has half at %lu ms", job, (unsigned long)(now / MS));
		worked_ms[job] += lively[job] && all;
	}
}

static void tick(void)
{
	now += MS;
	for (int i = 0; i < processes; i++) {
		struct process *p = &process[i];

		if (!lives(p))
			continue;
		act(p);
		move(p);
		p->worked_ms += runs(p) && wants(p);
		p->held_ms = wants(p) && !runs(p) ? p->held_ms + 1 : 0;
		if (p->held_ms > p->longest_ms)
			p->longest_ms = p->held_ms;
	}
	count_work();
	look_for_halves();
}

static void run_for(uint64_t ns)
{
	for (uint64_t end = now + ns; now < end;)
		tick();
}

#endif
