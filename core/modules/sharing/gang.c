/* SPDX-License-Identifier: MIT */
/* Exclusive turns. Rules: pure; a trusted member is believed (member.h). */
#include "core/modules/sharing/gang.h"

#include <stddef.h>
#include <string.h>

/*
 * The line: the jobs that share devices, directly or through other jobs, as their members report.
 */

enum { LINE_DEVICES = 64 };

/* A job, as its living members tell. */
struct job {
	uint64_t id, devices; /* a bit each */
	uint64_t ticket_ns, since_ns;
	uint64_t length_ns, exchange_ns, bytes, on_host;
	uint32_t states; /* of its members: a bit each */
	bool is_exclusive, wants, cannot, is_in_line;
	bool has_exclusive_turn; /* it works, and knows of nothing against exclusive turns */
};

struct line {
	uint64_t now_ns;
	uint32_t device[LINE_DEVICES];
	int devices;
	struct job job[GANG_MEMBERS + 1];
	int jobs;
	struct job *own;
	bool is_beyond; /* there are more members than are looked at */
};

static inline unsigned int line_bit(uint32_t state)
{
	return state < GANG_STATES ? 1U << state : 0;
}

/* The states in which launches pass. */
#define LINE_HOLDS (1U << GANG_FREE | 1U << GANG_HAS)

static inline uint64_t gang_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t gang_most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns a sum that stops at the end of numbers. */
static inline uint64_t gang_sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Turns are planned so that no job waits longer than this, with some time for handing over. */
#define PLANNED_NS (GANG_WAIT_NS - 10000000000ull)

/* --- members --- */

/* Returns a bit for a device. Beyond so many it has none. */
static uint64_t device_bit(struct line *line, uint32_t device)
{
	int i = 0;

	while (i < line->devices && line->device[i] != device)
		i++;
	if (i == LINE_DEVICES)
		return 0;
	if (i == line->devices)
		line->device[line->devices++] = device;
	return 1ull << i;
}

static struct job *gang_job_of(struct line *line, uint64_t id)
{
	int i = 0;

	while (i < line->jobs && line->job[i].id != id)
		i++;
	if (i == line->jobs)
		line->job[line->jobs++] = (struct job){.id = id,
		                                       .ticket_ns = UINT64_MAX,
		                                       .since_ns = UINT64_MAX,
		                                       .is_exclusive = true};
	return &line->job[i];
}

static void gang_add(struct line *line, const struct gang_member *m)
{
	struct job *job = gang_job_of(line, m->job);

	for (int i = 0; i < GANG_DEVICES && m->device[i]; i++)
		job->devices |= device_bit(line, m->device[i]);
	job->states |= line_bit(m->state);
	job->is_exclusive &= m->is_exclusive;
	job->wants |= m->wants;
	job->cannot |= m->why != GANG_NOTHING && m->why != GANG_FINE_BESIDE;
	job->has_exclusive_turn |=
	    m->is_exclusive && m->state == GANG_HAS && m->why == GANG_NOTHING;
	job->length_ns = gang_most(job->length_ns, m->length_ns);
	job->exchange_ns = gang_most(job->exchange_ns, m->exchange_ns);
	job->bytes = gang_sum(job->bytes, m->bytes);
	job->on_host = gang_sum(job->on_host, m->on_host);
	if (m->state == GANG_WAITS || m->state == GANG_TAKES || m->state == GANG_HAS)
		job->ticket_ns = gang_least(job->ticket_ns, m->ticket_ns);
	if (m->state == GANG_HAS || m->state == GANG_FREE)
		job->since_ns = gang_least(job->since_ns, m->since_ns);
}

/* Marks the jobs that share devices with us, directly or through other jobs. */
static void find_line(struct line *line)
{
	uint64_t devices = line->own->devices;
	bool grows = true;

	line->own->is_in_line = true;
	while (grows) {
		grows = false;
		for (int i = 0; i < line->jobs; i++) {
			struct job *job = &line->job[i];

			if (job->is_in_line || !(job->devices & devices))
				continue;
			/* A job of fine turns that does nothing blocks no job. */
			if (!job->is_exclusive && !job->wants)
				continue;
			job->is_in_line = true;
			devices |= job->devices;
			grows = true;
		}
	}
}

/* own: this process, which is not in it where it has not begun. */
static void line_make(struct line *line, const struct gang_member *own, uint64_t now_ns,
                      const struct gang_member *others, int count)
{
	*line = (struct line){.now_ns = now_ns, .is_beyond = count > GANG_MEMBERS};
	if (own->since_ns)
		gang_add(line, own);
	line->own = gang_job_of(line, own->job);
	for (int i = 0; i < count && i < GANG_MEMBERS; i++)
		if (member_lives(&others[i], own, now_ns))
			gang_add(line, &others[i]);
	find_line(line);
}

static bool conflict(const struct job *a, const struct job *b)
{
	return a->id != b->id && a->is_in_line && b->is_in_line && (a->devices & b->devices) != 0;
}

/* Returns the next job after the i-th that shares a device with this one, or -1. */
static int line_next_beside(const struct line *line, const struct job *job, int i)
{
	for (i++; i < line->jobs; i++)
		if (conflict(&line->job[i], job))
			return i;
	return -1;
}

/* Returns whether no job shares a device with ours. */
static bool line_is_alone(const struct line *line)
{
	return line_next_beside(line, line->own, -1) < 0;
}

/* --- whether there can be exclusive turns --- */

/* Returns how long a job's turns are, where each in the line has one while a job waits. */
static uint64_t gang_line_length(const struct line *line, const struct job *job)
{
	uint64_t jobs = 0, part;

	for (int i = 0; i < line->jobs; i++)
		jobs += line->job[i].is_in_line;
	part = PLANNED_NS / (jobs > 1 ? jobs - 1 : 1);
	part = part > job->exchange_ns ? part - job->exchange_ns : 0;
	return gang_least(gang_most(job->length_ns, GANG_WORTH * job->exchange_ns), part);
}

/* Returns how much a job may put on the host yet. */
static uint64_t to_come(const struct job *job)
{
	return !job->is_exclusive || job->cannot || job->bytes < job->on_host
	           ? 0
	           : job->bytes - job->on_host;
}

/* Returns why those in the line cannot take exclusive turns, or GANG_NOTHING. */
static enum gang_why line_why_not(const struct line *line, uint64_t host_room)
{
	uint64_t bytes = 0;

	for (int i = 0; i < line->jobs; i++)
		if (line->job[i].is_in_line && (!line->job[i].is_exclusive || line->job[i].cannot))
			return GANG_FINE_BESIDE;
	if (line->is_beyond)
		return GANG_TOO_MANY;
	for (int i = 0; i < line->jobs; i++) {
		const struct job *job = &line->job[i];

		if (job->is_in_line && gang_line_length(line, job) < GANG_WORTH * job->exchange_ns)
			return GANG_TOO_MANY;
		/* The host is the whole machine's: of jobs that share no device with us, too. */
		bytes = gang_sum(bytes, to_come(job));
	}
	return bytes > host_room ? GANG_HOST_FULL : GANG_NOTHING;
}

/* --- the line --- */

static bool line_goes_before(const struct job *a, const struct job *b)
{
	return a->ticket_ns != b->ticket_ns ? a->ticket_ns < b->ticket_ns : a->id < b->id;
}

static bool line_waits(const struct job *job)
{
	return (job->states & (line_bit(GANG_WAITS) | line_bit(GANG_TAKES))) &&
	       !(job->states & LINE_HOLDS);
}

/* Returns when the job's turn ends if a job waits for it. */
static uint64_t line_turn_end(const struct line *line, const struct job *job)
{
	return gang_sum(job->since_ns == UINT64_MAX ? line->now_ns : job->since_ns,
	                gang_line_length(line, job));
}

/*
 * Returns until when a waiting job is blocked by other jobs than this one and those beside it; 0:
 * it is not.
 */
static uint64_t line_kept_until(const struct line *line, const struct job *job,
                                const struct job *but)
{
	uint64_t until = 0;

	for (int i = line_next_beside(line, job, -1); i >= 0; i = line_next_beside(line, job, i)) {
		const struct job *other = &line->job[i];

		if (other == but || conflict(other, but))
			continue;
		if (other->states & LINE_HOLDS)
			until = gang_most(until, line_turn_end(line, other));
		else if (other->states & line_bit(GANG_LEAVES))
			until = gang_most(until, line->now_ns);
	}
	return until;
}

/* By so much more, and twice, an exchange may take than the last before it is believed. */
#define HELD_UP_NS 100000000ull

static bool is_found_by_us(enum gang_why why)
{
	return why == GANG_HOST_FULL || why == GANG_TOO_MANY || why == GANG_WAITED;
}

/*
 * Returns whether we have waited for too long: the deadline of each turn, for a peer that lives and
 * is stuck. For example, its kernel never ends, so that its memory does not leave.
 */
static bool has_waited(const struct gang *gang, uint64_t now)
{
	return (gang->own.state == GANG_WAITS || gang->own.state == GANG_TAKES) &&
	       now > gang->own.ticket_ns + GANG_WAIT_NS;
}

/* Decides whether turns are fine, for a while at least, and says why. */
static void gang_judge(struct gang *gang, const struct line *line, const struct gang_facts *facts)
{
	struct gang_member *own = &gang->own;
	bool stays = line->now_ns < gang->fine_until_ns;
	enum gang_why why = facts->why;

	if (!why && !line_is_alone(line))
		why = line_why_not(line, facts->host_room);
	if (!why && has_waited(gang, line->now_ns))
		why = GANG_WAITED;
	if (line_is_alone(line))
		stays = false;
	if (why && (!stays || is_found_by_us(why) || !is_found_by_us(own->why))) {
		own->why = why;
		gang->fine_until_ns =
		    line->now_ns + (is_found_by_us(why) ? GANG_AGAIN_NS
		                                        : gang_least(own->length_ns, GANG_WAIT_NS));
	} else if (!stays) {
		own->why = GANG_NOTHING;
	}
}

/*
 * Returns whether our turn may come now. *until: jobs that we overtake, and that other jobs block
 * for some time yet, want it back then.
 */
static bool is_next(const struct line *line, uint64_t *until)
{
	uint64_t worth =
	    gang_most(GANG_WORTH * line->own->exchange_ns, gang_line_length(line, line->own) / 4);
	const struct job *own = line->own;

	*until = UINT64_MAX;
	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];
		uint64_t kept_until;

		if (other->states & LINE_HOLDS)
			return false;
		if (!line_waits(other) || !line_goes_before(other, own))
			continue;
		kept_until = line_kept_until(line, other, own);
		if (kept_until < gang_sum(line->now_ns, worth))
			return false;
		*until = gang_least(*until, kept_until);
	}
	return true;
}

/* Returns whether our turn is to end: a job waits for it, and may have it. */
static bool gang_is_over(const struct gang *gang, const struct line *line)
{
	const struct job *own = line->own;
	uint64_t end = gang_least(line_turn_end(line, own), gang->overtakes_until_ns);

	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];

		if (!line_waits(other) || !other->wants)
			continue;
		if (!own->wants || line->now_ns >= end)
			return true;
		/* No other job blocks the job that we have overtaken any more. */
		if (gang->overtakes_until_ns != UINT64_MAX && line_goes_before(other, own) &&
		    !line_kept_until(line, other, own))
			return true;
	}
	return false;
}

/* --- steps --- */

static void gang_enter(struct gang *gang, const struct line *line, enum gang_state state)
{
	struct gang_member *own = &gang->own;

	if (own->state == state && own->since_ns)
		return;
	if (state == GANG_WAITS && own->state != GANG_TAKES)
		own->ticket_ns = line->now_ns;
	if (own->state == GANG_LEAVES)
		gang->left_ns = line->now_ns - own->since_ns;
	if (state != GANG_TAKES && state != GANG_HAS)
		gang->overtakes_until_ns = UINT64_MAX;
	gang->cleared_ns = 0;
	own->state = state;
	own->since_ns = line->now_ns;
}

/* Returns the states of the other members of our job. */
static uint32_t states_of_siblings(const struct gang_member *own, const struct gang_member *others,
                                   int count, uint64_t now)
{
	uint32_t states = 0;

	for (int i = 0; i < count && i < GANG_MEMBERS; i++)
		if (others[i].job == own->job && member_lives(&others[i], own, now))
			states |= line_bit(others[i].state);
	return states;
}

/* Returns the states of all members that share devices with us. */
static uint32_t states_beside(const struct line *line)
{
	uint32_t states = 0;

	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i))
		states |= line->job[i].states;
	return states;
}

/*
 * Returns whether a job beside us has the devices since before us: of two that met while both had
 * them the later one leaves.
 */
static bool is_later(const struct line *line)
{
	const struct job *own = line->own;

	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];

		if ((other->states & LINE_HOLDS) &&
		    (other->since_ns != own->since_ns ? other->since_ns < own->since_ns
		                                      : other->id < own->id))
			return true;
	}
	return false;
}

/* Begins: beside a part of our job that has its turn we are to have it, too. */
static void gang_begin(struct gang *gang, const struct line *line, uint32_t siblings)
{
	gang->own.since_ns = 0;
	gang_enter(gang, line, GANG_WAITS);
	if (siblings & (line_bit(GANG_HAS) | line_bit(GANG_TAKES)))
		gang_enter(gang, line, GANG_TAKES);
}

/* Notes how long an exchange took. One that took far longer than the last may have been held up. */
static void gang_note_exchange(struct gang *gang, uint64_t took_ns)
{
	gang->own.exchange_ns = gang_least(took_ns, 2 * gang->own.exchange_ns + HELD_UP_NS);
}

/* Has its turn begin that is next: no other job has the devices, or takes them before us. */
static void step_takes(struct gang *gang, const struct line *line, const struct gang_facts *facts,
                       uint32_t siblings)
{
	uint32_t beside = states_beside(line);
	bool is_clear = !(beside & line_bit(GANG_LEAVES)) &&
	                !(siblings & ~(line_bit(GANG_TAKES) | line_bit(GANG_HAS)));

	if (beside & LINE_HOLDS) {
		gang_enter(gang, line, GANG_WAITS);
		return;
	}
	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i)) {
		const struct job *other = &line->job[i];

		if (!(other->states & line_bit(GANG_TAKES)))
			continue;
		if (line_goes_before(other, line->own)) {
			gang_enter(gang, line, GANG_WAITS);
			return;
		}
		is_clear = false; /* until it has made way */
	}
	if (!is_clear)
		return;
	if (!gang->cleared_ns)
		gang->cleared_ns = line->now_ns;
	if (facts->is_back) {
		gang_note_exchange(gang, gang->left_ns + (line->now_ns - gang->cleared_ns));
		gang_enter(gang, line, GANG_HAS);
	}
}

static void step_has(struct gang *gang, const struct line *line, uint32_t siblings)
{
	const uint32_t leave = line_bit(GANG_LEAVES) | line_bit(GANG_WAITS) | line_bit(GANG_RESTS);

	if (is_later(line) || (siblings & leave) || gang_is_over(gang, line))
		gang_enter(gang, line, GANG_LEAVES);
}

static void step_free(struct gang *gang, const struct line *line)
{
	const uint32_t theirs = line_bit(GANG_HAS) | line_bit(GANG_LEAVES) | line_bit(GANG_TAKES);

	/* A job that comes to one that was alone waits for it. */
	if (is_later(line) || (!gang->was_alone && (states_beside(line) & theirs)))
		gang_enter(gang, line, GANG_LEAVES);
	else
		gang_enter(gang, line, GANG_HAS);
}

static void step_waits(struct gang *gang, const struct line *line, uint32_t siblings)
{
	const uint32_t ready = line_bit(GANG_WAITS) | line_bit(GANG_TAKES);
	uint64_t until;

	if (!line->own->wants) {
		gang_enter(gang, line, GANG_RESTS);
	} else if (!(siblings & ~ready) && is_next(line, &until)) {
		gang_enter(gang, line, GANG_TAKES);
		gang->overtakes_until_ns = until;
	}
}

/* Returns whether we were stopped: other jobs may have gone on without us, and do not see us. */
static bool was_stopped(const struct gang *gang, uint64_t now)
{
	return gang->own.beat_ns + GANG_LEASE_NS < now;
}

/*
 * Takes up the turn again that was lost by being stopped, or where we use a device more. A job that
 * had the turn takes it anew, once other jobs see that.
 */
static void take_again(struct gang *gang, const struct line *line)
{
	struct gang_member *own = &gang->own;

	gang->cleared_ns = 0;
	if (own->state == GANG_WAITS || own->state == GANG_FREE)
		own->ticket_ns = line->now_ns;
	if (own->state == GANG_LEAVES)
		own->since_ns = line->now_ns;
	if (own->state == GANG_HAS || own->state == GANG_FREE)
		gang_enter(gang, line, GANG_TAKES);
}

static int count_devices(const struct gang_member *m)
{
	int count = 0;

	while (count < GANG_DEVICES && m->device[count])
		count++;
	return count;
}

static void gang_do_step(struct gang *gang, const struct line *line, const struct gang_facts *facts,
                         uint32_t siblings)
{
	switch (gang->own.state) {
	case GANG_FREE:
		step_free(gang, line);
		break;
	case GANG_WAITS:
		step_waits(gang, line, siblings);
		break;
	case GANG_TAKES:
		step_takes(gang, line, facts, siblings);
		break;
	case GANG_HAS:
		step_has(gang, line, siblings);
		break;
	case GANG_LEAVES:
		if (facts->has_left)
			gang_enter(gang, line, line->own->wants ? GANG_WAITS : GANG_RESTS);
		break;
	default:
		if (line->own->wants)
			gang_enter(gang, line, GANG_WAITS);
	}
}

/*
 * Returns whether we, without exclusive turns from now on, may go on: no job beside us has one. A
 * job that has one answers as soon as it sees the reason, unless it does not see us.
 */
static bool is_answered(const struct gang *gang, const struct line *line)
{
	if (line->now_ns > gang->gave_up_ns + GANG_SILENT_NS)
		return true;
	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i))
		if (line->job[i].has_exclusive_turn)
			return false;
	return true;
}

/* Goes on beside other jobs without exclusive turns, once it may. */
static void gang_give_up(struct gang *gang, const struct line *line)
{
	bool works = gang->own.state == GANG_HAS || gang->own.state == GANG_FREE;

	if (!gang->gave_up_ns)
		gang->gave_up_ns = line->now_ns;
	if (works || is_answered(gang, line))
		gang_enter(gang, line, GANG_FREE);
	else if (gang->own.state == GANG_TAKES)
		gang_enter(gang, line, GANG_WAITS);
}

void gang_step(struct gang *gang, uint64_t now_ns, const struct gang_facts *facts,
               const struct gang_member *others, int count)
{
	struct gang_member *own = &gang->own;
	bool was_away = was_stopped(gang, now_ns) || count_devices(own) != gang->devices;
	uint32_t siblings;
	struct line line;

	own->wants = facts->wants;
	siblings = states_of_siblings(own, others, count, now_ns);
	line_make(&line, own, now_ns, others, count);
	if (!own->since_ns) {
		gang_begin(gang, &line, siblings);
	} else {
		gang_judge(gang, &line, facts);
		gang->gave_up_ns = own->why ? gang->gave_up_ns : 0;
		if (line_is_alone(&line))
			gang_enter(gang, &line, GANG_FREE);
		else if (own->why)
			gang_give_up(gang, &line);
		else if (was_away)
			take_again(gang, &line);
		else
			gang_do_step(gang, &line, facts, siblings);
	}
	gang->devices = count_devices(own);
	gang->was_alone = line_is_alone(&line);
	own->beat_ns = now_ns;
}

uint64_t gang_room(uint64_t all, uint64_t others_hold, uint64_t margin, uint64_t we_hold,
                   uint64_t step_bytes)
{
	uint64_t taken = gang_sum(others_hold, margin);
	uint64_t room = all > taken ? all - taken : 0;

	return gang_least(room, gang_sum(we_hold, step_bytes));
}
