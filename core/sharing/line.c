/* SPDX-License-Identifier: MIT */
/* The line. Rules: pure; what members say costs others a bounded time. */
#include "core/sharing/line.h"

#include <stddef.h>
#include <string.h>

static struct keeper *find(struct keepers *keepers, uint64_t id)
{
	for (int i = 1; i < KEEPERS; i++)
		if (keepers->of[i].seen_ns && keepers->of[i].id == id)
			return &keepers->of[i];
	return NULL;
}

/* Enters a keeper in place of the one that was not seen for longest. NULL: all are there. */
static struct keeper *enter(struct keepers *keepers, uint64_t id, uint64_t now)
{
	struct keeper *oldest = &keepers->of[1];

	for (int i = 2; i < KEEPERS; i++)
		if (keepers->of[i].seen_ns < oldest->seen_ns)
			oldest = &keepers->of[i];
	if (oldest->seen_ns == now)
		return NULL;
	*oldest = (struct keeper){.id = id, .out_ns = keepers->of[0].out_ns};
	return oldest;
}

/* Returns that of a job which is not ours. */
static struct keeper *keeper_of_job(struct keepers *keepers, uint64_t job)
{
	struct keeper *keeper = find(keepers, job);

	return keeper ? keeper : &keepers->of[0];
}

static uint64_t id_of(const struct gang_member *m, const struct gang_member *own)
{
	return m->job == own->job ? m->process : m->job;
}

struct keeper *keeper_of(struct keepers *keepers, const struct gang_member *m,
                         const struct gang_member *own)
{
	return keeper_of_job(keepers, id_of(m, own));
}

/* Returns whether nothing that it says would keep us. Of our own job nobody knows that. */
static bool lets_go(const struct gang_member *m, const struct gang_member *own)
{
	return m->job != own->job && (!m->is_whole || m->why != GANG_NOTHING ||
	                              m->state == GANG_WAITS || m->state == GANG_RESTS);
}

void keepers_see(struct keepers *keepers, const struct gang_member *own, uint64_t now,
                 const struct gang_member *others, int count, bool may_come)
{
	for (int i = 0; i < count && i < GANG_MEMBERS; i++) {
		uint64_t id = id_of(&others[i], own);
		struct keeper *keeper;

		if (!member_lives(&others[i], own, now))
			continue;
		keeper = find(keepers, id);
		if (!keeper && may_come)
			keeper = enter(keepers, id, now);
		if (!keeper)
			keeper = &keepers->of[0];
		keeper->lets_go =
		    (keeper->lets_go || keeper->seen_ns != now) && lets_go(&others[i], own);
		keeper->seen_ns = now;
	}
}

void keeper_leave_out(struct keepers *keepers, struct keeper *keeper, uint64_t now)
{
	keeper->out_ns = keepers->out_ns = now;
	keepers->left_out++;
}

void keepers_begin(struct keepers *keepers, uint64_t now)
{
	for (int i = 0; i < KEEPERS; i++) {
		struct keeper *keeper = &keepers->of[i];

		keeper->moved_ns = 0;
		memset(keeper->kept_ns, 0, sizeof keeper->kept_ns);
		if (i == 0 || keeper->lets_go || now > keeper->out_ns + GANG_AGAIN_NS)
			keeper->out_ns = 0;
	}
	if (now > keepers->out_ns + GANG_AGAIN_NS)
		keepers->left_out = 0;
}

/* Turns are planned so that nobody waits longer than this, and handing over has some time, too. */
#define PLANNED_NS (GANG_WAIT_NS - 10000000000ull)

/* --- who is there --- */

/* Returns a bit for a device. Others may make devices up: beyond so many it has none. */
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

static struct job *job_of(struct line *line, uint64_t id)
{
	int i = 0;

	while (i < line->jobs && line->job[i].id != id)
		i++;
	if (i == line->jobs)
		line->job[line->jobs++] = (struct job){
		    .id = id, .ticket_ns = UINT64_MAX, .since_ns = UINT64_MAX, .is_whole = true};
	return &line->job[i];
}

static void add(struct line *line, const struct gang_member *m)
{
	struct job *job = job_of(line, m->job);

	for (int i = 0; i < GANG_DEVICES && m->device[i]; i++)
		job->devices |= device_bit(line, m->device[i]);
	job->states |= line_bit(m->state);
	job->is_whole &= m->is_whole;
	job->wants |= m->wants;
	job->cannot |= m->why != GANG_NOTHING && m->why != GANG_FINE_BESIDE;
	job->has_whole_turn |= m->is_whole && m->state == GANG_HAS && m->why == GANG_NOTHING;
	job->length_ns = most(job->length_ns, least(m->length_ns, GANG_WAIT_NS));
	job->exchange_ns = most(job->exchange_ns, least(m->exchange_ns, GANG_WAIT_NS));
	job->bytes = sum(job->bytes, m->bytes);
	job->on_host = sum(job->on_host, m->on_host);
	if (m->state == GANG_WAITS || m->state == GANG_TAKES || m->state == GANG_HAS)
		job->ticket_ns = least(job->ticket_ns, m->ticket_ns);
	if (m->state == GANG_HAS || m->state == GANG_FREE)
		job->since_ns = least(job->since_ns, m->since_ns);
}

/* Marks those who share devices with us, or through others. */
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
			/* Who takes fine turns and does nothing is in nobody's way. */
			if (!job->is_whole && !job->wants)
				continue;
			job->is_in_line = true;
			devices |= job->devices;
			grows = true;
		}
	}
}

/* Sees since when a job has devices: what it says may be made up, but for what is seen late. */
static void see(const struct line *line, struct job *job, struct keeper *keeper)
{
	uint64_t now = line->now_ns;

	job->keeper = keeper;
	job->is_passed = job->ticket_ns <= keeper->passed_ns;
	if (!(job->states & LINE_HOLDS))
		keeper->holds_ns = 0;
	else if (!keeper->holds_ns)
		keeper->holds_ns = now;
	if (job->states & LINE_HOLDS && keeper->holds_ns > GANG_SILENT_NS)
		job->since_ns = least(now, most(job->since_ns, keeper->holds_ns - GANG_SILENT_NS));
}

void line_make(struct line *line, const struct gang_member *own, struct keepers *keepers,
               uint64_t now_ns, const struct gang_member *others, int count)
{
	*line = (struct line){.now_ns = now_ns, .is_beyond = count > GANG_MEMBERS};
	if (own->since_ns)
		add(line, own);
	line->own = job_of(line, own->job);
	/* Our own job's devices first, before those that others make up. */
	for (int is_theirs = 0; is_theirs < 2; is_theirs++)
		for (int i = 0; i < count && i < GANG_MEMBERS; i++)
			if ((others[i].job != own->job) == is_theirs &&
			    member_lives(&others[i], own, now_ns) &&
			    !keeper_of(keepers, &others[i], own)->out_ns)
				add(line, &others[i]);
	for (int i = 0; i < line->jobs; i++)
		if (&line->job[i] != line->own)
			see(line, &line->job[i], keeper_of_job(keepers, line->job[i].id));
	find_line(line);
}

static bool conflict(const struct job *a, const struct job *b)
{
	return a->id != b->id && a->is_in_line && b->is_in_line && (a->devices & b->devices) != 0;
}

/* Returns the next job after the i-th that shares a device with this one, or -1. */
int line_next_beside(const struct line *line, const struct job *job, int i)
{
	for (i++; i < line->jobs; i++)
		if (conflict(&line->job[i], job))
			return i;
	return -1;
}

bool line_is_alone(const struct line *line)
{
	return line_next_beside(line, line->own, -1) < 0;
}

/* --- whether there can be whole turns --- */

/* Returns how long a job's turns are, where each in the line has one while somebody waits. */
uint64_t line_length(const struct line *line, const struct job *job)
{
	uint64_t jobs = 0, part;

	for (int i = 0; i < line->jobs; i++)
		jobs += line->job[i].is_in_line;
	part = PLANNED_NS / (jobs > 1 ? jobs - 1 : 1);
	part = part > job->exchange_ns ? part - job->exchange_ns : 0;
	return least(most(job->length_ns, GANG_WORTH * job->exchange_ns), part);
}

uint64_t line_unplanned(const struct line *line)
{
	uint64_t turns = 0;

	for (int i = 0; i < line->jobs; i++)
		if (line->job[i].is_in_line && &line->job[i] != line->own)
			turns = sum(turns, line_length(line, &line->job[i]));
	return PLANNED_NS > turns ? PLANNED_NS - turns : 0;
}

/* Returns how much a job may put on the host yet: no more than its devices can hold. */
static uint64_t to_come(const struct job *job, uint64_t device_bytes)
{
	uint64_t devices = (uint64_t)__builtin_popcountll(job->devices), bytes;

	if (!job->is_whole || job->cannot || job->bytes < job->on_host)
		return 0;
	bytes = job->bytes - job->on_host;
	return !device_bytes || bytes / device_bytes < devices ? bytes : devices * device_bytes;
}

enum gang_why line_why_not(const struct line *line, uint64_t host_room, uint64_t device_bytes)
{
	uint64_t here = 0, elsewhere = 0;

	for (int i = 0; i < line->jobs; i++)
		if (line->job[i].is_in_line && (!line->job[i].is_whole || line->job[i].cannot))
			return GANG_FINE_BESIDE;
	if (line->is_beyond)
		return GANG_TOO_MANY;
	for (int i = 0; i < line->jobs; i++) {
		const struct job *job = &line->job[i];

		if (job->is_in_line && line_length(line, job) < GANG_WORTH * job->exchange_ns)
			return GANG_TOO_MANY;
		if (job->is_in_line)
			here = sum(here, to_come(job, device_bytes));
		else
			elsewhere = sum(elsewhere, to_come(job, device_bytes));
	}
	/* The host is the whole machine's; who shares no device with us speaks for half of it. */
	here = sum(here, least(elsewhere, host_room / 2));
	return here > host_room ? GANG_HOST_FULL : GANG_NOTHING;
}

/* --- the line --- */

bool line_goes_before(const struct job *a, const struct job *b)
{
	return a->ticket_ns != b->ticket_ns ? a->ticket_ns < b->ticket_ns : a->id < b->id;
}

bool line_waits(const struct job *job)
{
	return (job->states & (line_bit(GANG_WAITS) | line_bit(GANG_TAKES))) &&
	       !(job->states & LINE_HOLDS);
}

bool line_has_place(const struct job *job)
{
	/* Who takes its turn is not passed by: what it waits for the next would wait for, too. */
	return line_waits(job) && (!job->is_passed || (job->states & line_bit(GANG_TAKES)));
}

/* Returns when the job's turn ends if somebody waits for it. */
uint64_t line_turn_end(const struct line *line, const struct job *job)
{
	return sum(job->since_ns == UINT64_MAX ? line->now_ns : job->since_ns,
	           line_length(line, job));
}

/*
 * Returns until when a job that waits is kept waiting by others than this one and those beside it;
 * 0: it is not.
 */
uint64_t line_kept_until(const struct line *line, const struct job *job, const struct job *but)
{
	uint64_t until = 0;

	for (int i = line_next_beside(line, job, -1); i >= 0; i = line_next_beside(line, job, i)) {
		const struct job *other = &line->job[i];

		if (other == but || conflict(other, but))
			continue;
		if (other->states & LINE_HOLDS)
			until = most(until, line_turn_end(line, other));
		else if (other->states & line_bit(GANG_LEAVES))
			until = most(until, line->now_ns);
	}
	return until;
}
