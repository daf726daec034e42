/* SPDX-License-Identifier: MIT */
/*
 * Exclusive turns. Rules: pure; what members say is theirs to say, and costs others a bounded time.
 */
#include "core/sharing/gang.h"

#include <stddef.h>
#include <string.h>

/*
 * The line: the jobs that share devices, with each other or through others, as their members tell.
 */

enum { LINE_DEVICES = 64 };

/* A job, as its living members tell that are not ignored. */
struct job {
	uint64_t id, devices;              /* a bit each */
	struct blocking_job *blocking_job; /* NULL: ours */
	uint64_t ticket_ns, since_ns;
	uint64_t length_ns, exchange_ns, bytes, on_host;
	uint32_t states; /* of its members: a bit each */
	bool is_exclusive, wants, cannot, is_in_line;
	bool is_passed;          /* it did not take its turn when it came */
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

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns a sum that stops at the end of numbers: others say what is added. */
static inline uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static struct blocking_job *find(struct blocking_jobs *blocking_jobs, uint64_t id)
{
	for (int i = 1; i < BLOCKING_JOBS; i++)
		if (blocking_jobs->of[i].seen_ns && blocking_jobs->of[i].id == id)
			return &blocking_jobs->of[i];
	return NULL;
}

/* Enters a blocking job in place of the one that was not seen for longest. NULL: all are there. */
static struct blocking_job *line_enter(struct blocking_jobs *blocking_jobs, uint64_t id,
                                       uint64_t now)
{
	struct blocking_job *oldest = &blocking_jobs->of[1];

	for (int i = 2; i < BLOCKING_JOBS; i++)
		if (blocking_jobs->of[i].seen_ns < oldest->seen_ns)
			oldest = &blocking_jobs->of[i];
	if (oldest->seen_ns == now)
		return NULL;
	*oldest = (struct blocking_job){.id = id, .out_ns = blocking_jobs->of[0].out_ns};
	return oldest;
}

/* Returns that of a job which is not ours. */
static struct blocking_job *blocking_job_of_job(struct blocking_jobs *blocking_jobs, uint64_t job)
{
	struct blocking_job *blocking_job = find(blocking_jobs, job);

	return blocking_job ? blocking_job : &blocking_jobs->of[0];
}

static uint64_t id_of(const struct gang_member *m, const struct gang_member *own)
{
	return m->job == own->job ? m->process : m->job;
}

/* Returns the blocking job that a member counts for. */
static struct blocking_job *blocking_job_of(struct blocking_jobs *blocking_jobs,
                                            const struct gang_member *m,
                                            const struct gang_member *own)
{
	return blocking_job_of_job(blocking_jobs, id_of(m, own));
}

/* Returns whether nothing that it says would keep us. Of our own job nobody knows that. */
static bool lets_go(const struct gang_member *m, const struct gang_member *own)
{
	return m->job != own->job && (!m->is_exclusive || m->why != GANG_NOTHING ||
	                              m->state == GANG_WAITS || m->state == GANG_RESTS);
}

/* Sees who is there. may_come: who is new is a blocking job of its own. */
static void blocking_jobs_see(struct blocking_jobs *blocking_jobs, const struct gang_member *own,
                              uint64_t now, const struct gang_member *others, int count,
                              bool may_come)
{
	for (int i = 0; i < count && i < GANG_MEMBERS; i++) {
		uint64_t id = id_of(&others[i], own);
		struct blocking_job *blocking_job;

		if (!member_lives(&others[i], own, now))
			continue;
		blocking_job = find(blocking_jobs, id);
		if (!blocking_job && may_come)
			blocking_job = line_enter(blocking_jobs, id, now);
		if (!blocking_job)
			blocking_job = &blocking_jobs->of[0];
		blocking_job->lets_go = (blocking_job->lets_go || blocking_job->seen_ns != now) &&
		                        lets_go(&others[i], own);
		blocking_job->seen_ns = now;
	}
}

/* Ignores one. */
static void blocking_job_ignore(struct blocking_jobs *blocking_jobs,
                                struct blocking_job *blocking_job, uint64_t now)
{
	blocking_job->out_ns = blocking_jobs->out_ns = now;
	blocking_jobs->ignored++;
}

/*
 * Begins anew, because we have had our turn, or want none any more: who has let go is no longer
 * ignored.
 */
static void blocking_jobs_begin(struct blocking_jobs *blocking_jobs, uint64_t now)
{
	for (int i = 0; i < BLOCKING_JOBS; i++) {
		struct blocking_job *blocking_job = &blocking_jobs->of[i];

		blocking_job->moved_ns = 0;
		memset(blocking_job->kept_ns, 0, sizeof blocking_job->kept_ns);
		if (i == 0 || blocking_job->lets_go || now > blocking_job->out_ns + GANG_AGAIN_NS)
			blocking_job->out_ns = 0;
	}
	if (now > blocking_jobs->out_ns + GANG_AGAIN_NS)
		blocking_jobs->ignored = 0;
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
		line->job[line->jobs++] = (struct job){.id = id,
		                                       .ticket_ns = UINT64_MAX,
		                                       .since_ns = UINT64_MAX,
		                                       .is_exclusive = true};
	return &line->job[i];
}

static void add(struct line *line, const struct gang_member *m)
{
	struct job *job = job_of(line, m->job);

	for (int i = 0; i < GANG_DEVICES && m->device[i]; i++)
		job->devices |= device_bit(line, m->device[i]);
	job->states |= line_bit(m->state);
	job->is_exclusive &= m->is_exclusive;
	job->wants |= m->wants;
	job->cannot |= m->why != GANG_NOTHING && m->why != GANG_FINE_BESIDE;
	job->has_exclusive_turn |=
	    m->is_exclusive && m->state == GANG_HAS && m->why == GANG_NOTHING;
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
			if (!job->is_exclusive && !job->wants)
				continue;
			job->is_in_line = true;
			devices |= job->devices;
			grows = true;
		}
	}
}

/* Sees since when a job has devices: what it says may be made up, but for what is seen late. */
static void see(const struct line *line, struct job *job, struct blocking_job *blocking_job)
{
	uint64_t now = line->now_ns;

	job->blocking_job = blocking_job;
	job->is_passed = job->ticket_ns <= blocking_job->passed_ns;
	if (!(job->states & LINE_HOLDS))
		blocking_job->holds_ns = 0;
	else if (!blocking_job->holds_ns)
		blocking_job->holds_ns = now;
	if (job->states & LINE_HOLDS && blocking_job->holds_ns > GANG_SILENT_NS)
		job->since_ns =
		    least(now, most(job->since_ns, blocking_job->holds_ns - GANG_SILENT_NS));
}

/*
 * own: this process, which is not in it where it has not begun. blocking_jobs: those seen.
 */
static void line_make(struct line *line, const struct gang_member *own,
                      struct blocking_jobs *blocking_jobs, uint64_t now_ns,
                      const struct gang_member *others, int count)
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
			    !blocking_job_of(blocking_jobs, &others[i], own)->out_ns)
				add(line, &others[i]);
	for (int i = 0; i < line->jobs; i++)
		if (&line->job[i] != line->own)
			see(line, &line->job[i],
			    blocking_job_of_job(blocking_jobs, line->job[i].id));
	find_line(line);
}

static bool conflict(const struct job *a, const struct job *b)
{
	return a->id != b->id && a->is_in_line && b->is_in_line && (a->devices & b->devices) != 0;
}

/* Returns the next job after the i-th that shares a device with this one, or -1. */
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

/* Returns how long a job's turns are, where each in the line has one while somebody waits. */
/* Returns how long a job's turns are, where each in the line has one while somebody waits. */
static uint64_t line_length(const struct line *line, const struct job *job)
{
	uint64_t jobs = 0, part;

	for (int i = 0; i < line->jobs; i++)
		jobs += line->job[i].is_in_line;
	part = PLANNED_NS / (jobs > 1 ? jobs - 1 : 1);
	part = part > job->exchange_ns ? part - job->exchange_ns : 0;
	return least(most(job->length_ns, GANG_WORTH * job->exchange_ns), part);
}

/* Returns how much of the time for which anybody may wait is left beside the others' turns. */
static uint64_t line_unplanned(const struct line *line)
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

	if (!job->is_exclusive || job->cannot || job->bytes < job->on_host)
		return 0;
	bytes = job->bytes - job->on_host;
	return !device_bytes || bytes / device_bytes < devices ? bytes : devices * device_bytes;
}

/*
 * Returns why those in the line cannot take exclusive turns, or GANG_NOTHING. device_bytes: no
 * device has more; 0: that is not known.
 */
static enum gang_why line_why_not(const struct line *line, uint64_t host_room,
                                  uint64_t device_bytes)
{
	uint64_t here = 0, elsewhere = 0;

	for (int i = 0; i < line->jobs; i++)
		if (line->job[i].is_in_line && (!line->job[i].is_exclusive || line->job[i].cannot))
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

static bool line_goes_before(const struct job *a, const struct job *b)
{
	return a->ticket_ns != b->ticket_ns ? a->ticket_ns < b->ticket_ns : a->id < b->id;
}

static bool line_waits(const struct job *job)
{
	return (job->states & (line_bit(GANG_WAITS) | line_bit(GANG_TAKES))) &&
	       !(job->states & LINE_HOLDS);
}

/* Returns whether it waits, and others have it go before them. */
static bool line_has_place(const struct job *job)
{
	/* Who takes its turn is not passed by: what it waits for the next would wait for, too. */
	return line_waits(job) && (!job->is_passed || (job->states & line_bit(GANG_TAKES)));
}

/* Returns when the job's turn ends if somebody waits for it. */
/* Returns when the job's turn ends if somebody waits for it. */
static uint64_t line_turn_end(const struct line *line, const struct job *job)
{
	return sum(job->since_ns == UINT64_MAX ? line->now_ns : job->since_ns,
	           line_length(line, job));
}

/*
 * Returns until when a job that waits is kept waiting by others than this one and those beside it;
 * 0: it is not.
 */
/*
 * Returns until when a job that waits is kept waiting by others than this one and those beside it;
 * 0: it is not.
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
			until = most(until, line_turn_end(line, other));
		else if (other->states & line_bit(GANG_LEAVES))
			until = most(until, line->now_ns);
	}
	return until;
}

/*
 * Counting who keeps this process from its turn, and ignoring who does for longer than a job
 * that keeps to the rules would: a turn, or two, and an exchange of a minute on a machine at load.
 * For core/sharing/gang.c.
 */

/* For so long all that others move may keep us, and less where there would be no time for that. */
#define MOVING_NS       75000000000ull
#define MOVING_LEAST_NS 8000000000ull
/* So much later than planned may turns end. */
#define LATE_NS 5000000000ull

/* Returns whether a member is another of our job that lives and is not ignored. */
static bool blocking_is_sibling(struct blocking_jobs *blocking_jobs, const struct gang_member *own,
                                const struct gang_member *m, uint64_t now)
{
	return m->job == own->job && member_lives(m, own, now) &&
	       !blocking_job_of(blocking_jobs, m, own)->out_ns;
}

/*
 * Leaves out who keeps us by its turn for longer than that lasts, or than two where they are short:
 * who was stopped takes it anew. Of several it is the first: beside it others may rightly have
 * their turns, again and again.
 */
static void count_turns(struct blocking_jobs *blocking_jobs, const struct line *line,
                        uint64_t elapsed_ns)
{
	const struct job *own = line->own, *first = NULL;
	uint64_t length;

	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];

		if ((other->states & LINE_HOLDS) &&
		    (!first || other->blocking_job->holds_ns < first->blocking_job->holds_ns))
			first = other;
	}
	if (!first)
		return;
	length = line_length(line, first);
	first->blocking_job->kept_ns[KEEPS_TURN] += elapsed_ns;
	if (first->blocking_job->kept_ns[KEEPS_TURN] >
	    most(length, least(2 * length, MOVING_NS)) + LATE_NS)
		blocking_job_ignore(blocking_jobs, first->blocking_job, line->now_ns);
}

/* Notes who is to move before one can take its turn, or to make way. Returns whether anybody is. */
static bool note_those_before(const struct line *line, const struct job *job)
{
	bool is_any = false;

	for (int i = line_next_beside(line, job, -1); i >= 0; i = line_next_beside(line, job, i)) {
		const struct job *other = &line->job[i];

		if (!other->blocking_job || (other->states & LINE_HOLDS) ||
		    !(other->states & (line_bit(GANG_LEAVES) | line_bit(GANG_TAKES))) ||
		    (!(other->states & line_bit(GANG_LEAVES)) && line_goes_before(other, job)))
			continue;
		other->blocking_job->moved_ns = line->now_ns;
		is_any = true;
	}
	return is_any;
}

static void note_siblings(struct blocking_jobs *blocking_jobs, const struct gang_member *own,
                          const struct gang_member *others, int count, uint64_t now)
{
	uint32_t ready =
	    line_bit(GANG_TAKES) | line_bit(own->state == GANG_TAKES ? GANG_HAS : GANG_WAITS);

	for (int i = 0; i < count && i < GANG_MEMBERS; i++)
		if (blocking_is_sibling(blocking_jobs, own, &others[i], now) &&
		    !(line_bit(others[i].state) & ready))
			blocking_job_of(blocking_jobs, &others[i], own)->moved_ns = now;
}

/* Notes who keeps us because memory moves: that it does, or is to. */
static void note_moving(struct blocking_jobs *blocking_jobs, const struct line *line,
                        const struct gang_member *own, const struct gang_member *others, int count)
{
	bool is_kept = own->state == GANG_TAKES && note_those_before(line, line->own);

	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i)) {
		const struct job *other = &line->job[i];

		is_kept |= (other->states & LINE_HOLDS) != 0;
		if ((other->states & LINE_HOLDS) || !(other->states & line_bit(GANG_TAKES)) ||
		    !line_goes_before(other, line->own))
			continue;
		/* A job that waits for another does not keep us: the other does. */
		if (!note_those_before(line, other))
			other->blocking_job->moved_ns = line->now_ns;
		is_kept = true;
	}
	if (!is_kept)
		note_siblings(blocking_jobs, own, others, count, line->now_ns);
}

/* Counts, while we wait or take our turn, the time since the last look. */
static void blocking_count(struct blocking_jobs *blocking_jobs, const struct line *line,
                           const struct gang_member *own, uint64_t elapsed_ns,
                           const struct gang_member *others, int count)
{
	uint64_t may = least(MOVING_NS, sum(line_unplanned(line), line_length(line, line->own)));

	/* One that was ignored shows that others may lie, too. */
	may = most(may >> least(blocking_jobs->ignored, 4), MOVING_LEAST_NS);
	count_turns(blocking_jobs, line, elapsed_ns);
	note_moving(blocking_jobs, line, own, others, count);
	for (int i = 0; i < BLOCKING_JOBS; i++) {
		struct blocking_job *blocking_job = &blocking_jobs->of[i];

		/* One that lets go for a moment, again and again, keeps us all the same. */
		if (blocking_job->out_ns || !blocking_job->moved_ns ||
		    line->now_ns > blocking_job->moved_ns + GANG_SILENT_NS)
			continue;
		blocking_job->kept_ns[KEEPS_MOVING] += elapsed_ns;
		if (blocking_job->kept_ns[KEEPS_MOVING] > may)
			blocking_job_ignore(blocking_jobs, blocking_job, line->now_ns);
	}
}

/* Who is first in line and could take its turn has so long to do it. */
#define CLAIM_NS 2000000000ull
/* By so much more, and twice, an exchange may take than the last before it is believed. */
#define HELD_UP_NS 100000000ull

static bool is_found_by_us(enum gang_why why)
{
	return why == GANG_HOST_FULL || why == GANG_TOO_MANY || why == GANG_WAITED;
}

/*
 * Returns whether we have waited for too long. Who was ignored may have kept us for as long as
 * anybody may wait; since then there is no more reason to wait than before it.
 */
static bool has_waited(const struct gang *gang, uint64_t now)
{
	uint64_t ticket = gang->own.ticket_ns;
	uint64_t since = least(most(ticket, gang->blocking_jobs.out_ns), sum(ticket, GANG_WAIT_NS));

	return (gang->own.state == GANG_WAITS || gang->own.state == GANG_TAKES) &&
	       now > sum(since, GANG_WAIT_NS);
}

/* Decides whether turns are fine, for a while at least, and says why. */
static void judge(struct gang *gang, const struct line *line, const struct gang_facts *facts)
{
	struct gang_member *own = &gang->own;
	bool stays = line->now_ns < gang->fine_until_ns;
	enum gang_why why = facts->why;

	if (!why && !line_is_alone(line))
		why = line_why_not(line, facts->host_room, facts->device_bytes);
	if (!why && has_waited(gang, line->now_ns))
		why = GANG_WAITED;
	if (line_is_alone(line))
		stays = false;
	if (why && (!stays || is_found_by_us(why) || !is_found_by_us(own->why))) {
		own->why = why;
		gang->fine_until_ns =
		    line->now_ns +
		    (is_found_by_us(why) ? GANG_AGAIN_NS : least(own->length_ns, GANG_WAIT_NS));
	} else if (!stays) {
		own->why = GANG_NOTHING;
	}
}

/* Passes by who is first in line and does not take its turn. */
static void pass_by(struct gang *gang, const struct line *line, const struct job *first)
{
	struct blocking_job *blocking_job = first->blocking_job;

	if ((first->states & line_bit(GANG_TAKES)) || line_kept_until(line, first, line->own))
		return;
	blocking_job->kept_ns[KEEPS_PLACE] += gang->elapsed_ns;
	if (blocking_job->kept_ns[KEEPS_PLACE] > CLAIM_NS)
		blocking_job->passed_ns = line->now_ns;
}

/*
 * Returns whether our turn may come now. *until: those we overtake, who are kept waiting by others
 * for some time yet, want it back then.
 */
static bool is_next(struct gang *gang, const struct line *line, uint64_t *until)
{
	uint64_t worth =
	    most(GANG_WORTH * line->own->exchange_ns, line_length(line, line->own) / 4);
	const struct job *own = line->own, *first = NULL;

	*until = UINT64_MAX;
	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];
		uint64_t kept_until;

		if (other->states & LINE_HOLDS)
			return false;
		if (!line_has_place(other) || !line_goes_before(other, own))
			continue;
		kept_until = line_kept_until(line, other, own);
		if (kept_until >= sum(line->now_ns, worth))
			*until = least(*until, kept_until);
		else if (!first || line_goes_before(other, first))
			first = other;
	}
	if (first)
		pass_by(gang, line, first);
	return !first;
}

/* Returns whether our turn is to end: somebody waits for it, and may have it. */
static bool is_over(const struct gang *gang, const struct line *line)
{
	const struct job *own = line->own;
	uint64_t end = least(line_turn_end(line, own), gang->overtakes_until_ns);

	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];

		if (!line_waits(other) || !other->wants)
			continue;
		if (!own->wants || line->now_ns >= end)
			return true;
		/* Whom we have overtaken nobody else keeps any more. */
		if (gang->overtakes_until_ns != UINT64_MAX && line_has_place(other) &&
		    line_goes_before(other, own) && !line_kept_until(line, other, own))
			return true;
	}
	return false;
}

/* --- steps --- */

static void enter(struct gang *gang, const struct line *line, enum gang_state state)
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
	if (state == GANG_HAS)
		gang->held_ns = line->now_ns;
	gang->cleared_ns = 0;
	own->state = state;
	own->since_ns = line->now_ns;
}

/* Returns the states of the others of our job. */
static uint32_t states_of_siblings(struct gang *gang, const struct gang_member *others, int count,
                                   uint64_t now)
{
	uint32_t states = 0;

	for (int i = 0; i < count && i < GANG_MEMBERS; i++)
		if (blocking_is_sibling(&gang->blocking_jobs, &gang->own, &others[i], now))
			states |= line_bit(others[i].state);
	return states;
}

/* Returns the states of all who share devices with us. */
static uint32_t states_beside(const struct line *line)
{
	uint32_t states = 0;

	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i))
		states |= line->job[i].states;
	return states;
}

/*
 * Returns whether somebody beside us has the devices since before us: of two who met while both had
 * them the later one leaves. seen_ns: it must have had them by then.
 */
static bool is_later(const struct gang *gang, const struct line *line, uint64_t seen_ns)
{
	const struct gang_member *own = &gang->own;

	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i)) {
		const struct job *other = &line->job[i];

		if ((other->states & LINE_HOLDS) && other->blocking_job->holds_ns < seen_ns &&
		    (other->since_ns != own->since_ns ? other->since_ns < own->since_ns
		                                      : other->id < own->job))
			return true;
	}
	return false;
}

/* Begins: beside a part of our job that has its turn we are to have it, too. */
static void begin(struct gang *gang, const struct line *line, uint32_t siblings)
{
	gang->own.since_ns = 0;
	enter(gang, line, GANG_WAITS);
	if (siblings & (line_bit(GANG_HAS) | line_bit(GANG_TAKES)))
		enter(gang, line, GANG_TAKES);
}

/* Notes what an exchange took. One that took far longer than the last may have been held up. */
static void note_exchange(struct gang *gang, uint64_t took_ns)
{
	gang->own.exchange_ns = least(took_ns, 2 * gang->own.exchange_ns + HELD_UP_NS);
}

/* Has its turn begin that is next: nobody else has the devices, or takes them before us. */
static void step_takes(struct gang *gang, const struct line *line, const struct gang_facts *facts,
                       uint32_t siblings)
{
	uint32_t beside = states_beside(line);
	bool is_clear = !(beside & line_bit(GANG_LEAVES)) &&
	                !(siblings & ~(line_bit(GANG_TAKES) | line_bit(GANG_HAS)));

	if (beside & LINE_HOLDS) {
		enter(gang, line, GANG_WAITS);
		return;
	}
	for (int i = line_next_beside(line, line->own, -1); i >= 0;
	     i = line_next_beside(line, line->own, i)) {
		const struct job *other = &line->job[i];

		if (!(other->states & line_bit(GANG_TAKES)))
			continue;
		if (line_goes_before(other, line->own)) {
			enter(gang, line, GANG_WAITS);
			return;
		}
		is_clear = false; /* until it has made way */
	}
	if (!is_clear)
		return;
	if (!gang->cleared_ns)
		gang->cleared_ns = line->now_ns;
	if (facts->is_back) {
		note_exchange(gang, gang->left_ns + (line->now_ns - gang->cleared_ns));
		enter(gang, line, GANG_HAS);
	}
}

static void step_has(struct gang *gang, const struct line *line, uint32_t siblings)
{
	const uint32_t leave = line_bit(GANG_LEAVES) | line_bit(GANG_WAITS) | line_bit(GANG_RESTS);

	if (is_later(gang, line, gang->held_ns)) {
		enter(gang, line, GANG_LEAVES);
	} else if ((siblings & leave) || is_over(gang, line)) {
		blocking_jobs_begin(&gang->blocking_jobs, line->now_ns);
		enter(gang, line, GANG_LEAVES);
	}
}

static void step_free(struct gang *gang, const struct line *line)
{
	const uint32_t theirs = line_bit(GANG_HAS) | line_bit(GANG_LEAVES) | line_bit(GANG_TAKES);
	uint64_t since_ns = gang->own.since_ns;

	/* A job that comes to one that was alone waits for it, whatever it says. */
	if (is_later(gang, line, gang->was_alone ? since_ns : UINT64_MAX) ||
	    (!gang->was_alone && (states_beside(line) & theirs))) {
		enter(gang, line, GANG_LEAVES);
	} else {
		enter(gang, line, GANG_HAS);
		gang->held_ns = gang->was_alone ? since_ns : line->now_ns + GANG_SILENT_NS;
	}
}

static void step_waits(struct gang *gang, const struct line *line, uint32_t siblings)
{
	const uint32_t ready = line_bit(GANG_WAITS) | line_bit(GANG_TAKES);
	uint64_t until;

	if (!line->own->wants) {
		blocking_jobs_begin(&gang->blocking_jobs, line->now_ns);
		enter(gang, line, GANG_RESTS);
	} else if (!(siblings & ~ready) && is_next(gang, line, &until)) {
		enter(gang, line, GANG_TAKES);
		gang->overtakes_until_ns = until;
	}
}

/*
 * Returns whether who is new may be one of those that go before us: we do not wait, or have not
 * for longer than others are seen late.
 */
static bool may_come(const struct gang *gang, uint64_t now)
{
	uint32_t state = gang->own.state;

	return (state != GANG_WAITS && state != GANG_TAKES) ||
	       now < most(gang->own.ticket_ns, gang->resumed_ns) + GANG_SILENT_NS;
}

/* Returns whether we were stopped: the others may have gone on without us, and do not see us. */
static bool was_stopped(const struct gang *gang, uint64_t now)
{
	return gang->own.beat_ns + GANG_LEASE_NS < now;
}

/*
 * Takes up again what was left by being stopped, or where we use a device more: who had the turn
 * takes it anew, once others see that.
 */
static void take_again(struct gang *gang, const struct line *line)
{
	struct gang_member *own = &gang->own;

	gang->cleared_ns = 0;
	gang->resumed_ns = line->now_ns;
	blocking_jobs_begin(&gang->blocking_jobs, line->now_ns);
	if (own->state == GANG_WAITS || own->state == GANG_FREE)
		own->ticket_ns = line->now_ns;
	if (own->state == GANG_LEAVES)
		own->since_ns = line->now_ns;
	if (own->state == GANG_HAS || own->state == GANG_FREE)
		enter(gang, line, GANG_TAKES);
}

static int count_devices(const struct gang_member *m)
{
	int count = 0;

	while (count < GANG_DEVICES && m->device[count])
		count++;
	return count;
}

static void step(struct gang *gang, const struct line *line, const struct gang_facts *facts,
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
			enter(gang, line, line->own->wants ? GANG_WAITS : GANG_RESTS);
		break;
	default:
		if (line->own->wants)
			enter(gang, line, GANG_WAITS);
	}
}

/*
 * Returns whether we, who take no exclusive turns any more, may go on: nobody beside us has one.
 * Who has one answers as soon as it sees why we take none; who lives, and does not, lies.
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

/* Goes on beside others without exclusive turns, once it may. */
static void give_up(struct gang *gang, const struct line *line)
{
	bool works = gang->own.state == GANG_HAS || gang->own.state == GANG_FREE;

	if (!gang->gave_up_ns)
		gang->gave_up_ns = line->now_ns;
	if (works || is_answered(gang, line))
		enter(gang, line, GANG_FREE);
	else if (gang->own.state == GANG_TAKES)
		enter(gang, line, GANG_WAITS);
}

void gang_step(struct gang *gang, uint64_t now_ns, const struct gang_facts *facts,
               const struct gang_member *others, int count)
{
	struct gang_member *own = &gang->own;
	bool was_away = was_stopped(gang, now_ns) || count_devices(own) != gang->devices;
	uint32_t siblings;
	struct line line;

	own->wants = facts->wants;
	gang->elapsed_ns = was_away ? 0 : now_ns - own->beat_ns;
	blocking_jobs_see(&gang->blocking_jobs, own, now_ns, others, count,
	                  was_away || may_come(gang, now_ns));
	siblings = states_of_siblings(gang, others, count, now_ns);
	line_make(&line, own, &gang->blocking_jobs, now_ns, others, count);
	if (!own->since_ns) {
		begin(gang, &line, siblings);
	} else {
		judge(gang, &line, facts);
		gang->gave_up_ns = own->why ? gang->gave_up_ns : 0;
		if (line_is_alone(&line))
			enter(gang, &line, GANG_FREE);
		else if (own->why)
			give_up(gang, &line);
		else if (was_away)
			take_again(gang, &line);
		else
			step(gang, &line, facts, siblings);
		if (own->state == GANG_WAITS || own->state == GANG_TAKES)
			blocking_count(&gang->blocking_jobs, &line, own, gang->elapsed_ns, others,
			               count);
		else if (own->state == GANG_FREE &&
		         now_ns > own->since_ns + least(own->length_ns, GANG_WAIT_NS))
			blocking_jobs_begin(&gang->blocking_jobs, now_ns);
	}
	gang->devices = count_devices(own);
	gang->was_alone = line_is_alone(&line);
	own->beat_ns = now_ns;
}

uint64_t gang_room(uint64_t all, uint64_t others_hold, uint64_t margin, uint64_t we_hold,
                   uint64_t step_bytes)
{
	uint64_t taken = sum(others_hold, margin);
	uint64_t room = all > taken ? all - taken : 0;

	return least(room, sum(we_hold, step_bytes));
}
