/* SPDX-License-Identifier: MIT */
/* Counts who keeps us. Rules: pure; by what was seen and our clock. */
#include "core/sharing/keeping.h"

#include <stddef.h>

/* For so long all that others move may keep us, and less where there would be no time for that. */
#define MOVING_NS       75000000000ull
#define MOVING_LEAST_NS 8000000000ull
/* So much later than planned may turns end. */
#define LATE_NS 5000000000ull

bool keeping_is_sibling(struct keepers *keepers, const struct gang_member *own,
                        const struct gang_member *m, uint64_t now)
{
	return m->job == own->job && member_lives(m, own, now) &&
	       !keeper_of(keepers, m, own)->out_ns;
}

/*
 * Leaves out who keeps us by its turn for longer than that lasts, or than two where they are short:
 * who was stopped takes it anew. Of several it is the first: beside it others may rightly have
 * their turns, again and again.
 */
static void count_turns(struct keepers *keepers, const struct line *line, uint64_t elapsed_ns)
{
	const struct job *own = line->own, *first = NULL;
	uint64_t length;

	for (int i = line_next_beside(line, own, -1); i >= 0; i = line_next_beside(line, own, i)) {
		const struct job *other = &line->job[i];

		if ((other->states & LINE_HOLDS) &&
		    (!first || other->keeper->holds_ns < first->keeper->holds_ns))
			first = other;
	}
	if (!first)
		return;
	length = line_length(line, first);
	first->keeper->kept_ns[KEEPS_TURN] += elapsed_ns;
	if (first->keeper->kept_ns[KEEPS_TURN] >
	    most(length, least(2 * length, MOVING_NS)) + LATE_NS)
		keeper_leave_out(keepers, first->keeper, line->now_ns);
}

/* Notes who is to move before one can take its turn, or to make way. Returns whether anybody is. */
static bool note_those_before(const struct line *line, const struct job *job)
{
	bool is_any = false;

	for (int i = line_next_beside(line, job, -1); i >= 0; i = line_next_beside(line, job, i)) {
		const struct job *other = &line->job[i];

		if (!other->keeper || (other->states & LINE_HOLDS) ||
		    !(other->states & (line_bit(GANG_LEAVES) | line_bit(GANG_TAKES))) ||
		    (!(other->states & line_bit(GANG_LEAVES)) && line_goes_before(other, job)))
			continue;
		other->keeper->moved_ns = line->now_ns;
		is_any = true;
	}
	return is_any;
}

static void note_siblings(struct keepers *keepers, const struct gang_member *own,
                          const struct gang_member *others, int count, uint64_t now)
{
	uint32_t ready =
	    line_bit(GANG_TAKES) | line_bit(own->state == GANG_TAKES ? GANG_HAS : GANG_WAITS);

	for (int i = 0; i < count && i < GANG_MEMBERS; i++)
		if (keeping_is_sibling(keepers, own, &others[i], now) &&
		    !(line_bit(others[i].state) & ready))
			keeper_of(keepers, &others[i], own)->moved_ns = now;
}

/* Notes who keeps us because memory moves: that it does, or is to. */
static void note_moving(struct keepers *keepers, const struct line *line,
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
			other->keeper->moved_ns = line->now_ns;
		is_kept = true;
	}
	if (!is_kept)
		note_siblings(keepers, own, others, count, line->now_ns);
}

void keeping_count(struct keepers *keepers, const struct line *line, const struct gang_member *own,
                   uint64_t elapsed_ns, const struct gang_member *others, int count)
{
	uint64_t may = least(MOVING_NS, sum(line_unplanned(line), line_length(line, line->own)));

	/* One that was left out shows that others may lie, too. */
	may = most(may >> least(keepers->left_out, 4), MOVING_LEAST_NS);
	count_turns(keepers, line, elapsed_ns);
	note_moving(keepers, line, own, others, count);
	for (int i = 0; i < KEEPERS; i++) {
		struct keeper *keeper = &keepers->of[i];

		/* One that lets go for a moment, again and again, keeps us all the same. */
		if (keeper->out_ns || !keeper->moved_ns ||
		    line->now_ns > keeper->moved_ns + GANG_SILENT_NS)
			continue;
		keeper->kept_ns[KEEPS_MOVING] += elapsed_ns;
		if (keeper->kept_ns[KEEPS_MOVING] > may)
			keeper_leave_out(keepers, keeper, line->now_ns);
	}
}
