/* SPDX-License-Identifier: MIT */
/*
 * The line: the jobs that share devices, with each other or through others, as their members tell.
 * For core/sharing/gang.c.
 */
#ifndef SPILLWAY_SHARING_LINE_H
#define SPILLWAY_SHARING_LINE_H

#include "core/sharing/member.h"

/*
 * Keepers: those that keep this process from its turn, and for how long each has since its last
 * one. For core/sharing/line.c and core/sharing/gang.c.
 *
 * A keeper is told by what was seen of it and by our clock, never by what it says. Who keeps us for
 * longer than whoever keeps to the turns would is left out, until we have had our turn and it has
 * let go: what it says is as if it were not there.
 */
enum { KEEPERS = GANG_MEMBERS };

/* By what one keeps us. */
enum keeping {
	KEEPS_PLACE,  /* it is first in line, and does not take its turn */
	KEEPS_MOVING, /* its memory leaves, or comes */
	KEEPS_TURN,   /* it has its turn */
	KEEPINGS
};

struct keeper {
	uint64_t id;                /* of a job; in our own job, of a process */
	uint64_t seen_ns;           /* the last time */
	uint64_t holds_ns;          /* since when it has devices; 0: it has none */
	uint64_t moved_ns;          /* when it last kept us by moving */
	uint64_t kept_ns[KEEPINGS]; /* since our last turn */
	uint64_t passed_ns;         /* its places until then are lost */
	uint64_t out_ns;            /* since when it is left out; 0: it is not */
	bool lets_go;               /* it says of nothing that would keep us */
};

struct keepers {
	/* The first is all those together that came while we wait. */
	struct keeper of[KEEPERS];
	unsigned int left_out; /* how often somebody was, lately */
	uint64_t out_ns;       /* the last time */
};

/* Returns the keeper that a member counts for. */
struct keeper *keeper_of(struct keepers *keepers, const struct gang_member *m,
                         const struct gang_member *own);
/* Sees who is there. may_come: who is new is a keeper of its own. */
void keepers_see(struct keepers *keepers, const struct gang_member *own, uint64_t now_ns,
                 const struct gang_member *others, int count, bool may_come);
/* Leaves one out. */
void keeper_leave_out(struct keepers *keepers, struct keeper *keeper, uint64_t now_ns);
/*
 * Begins anew, because we have had our turn, or want none any more: who has let go is no longer
 * left out.
 */
void keepers_begin(struct keepers *keepers, uint64_t now_ns);

enum { LINE_DEVICES = 64 };

/* A job, as its living members tell that are not left out. */
struct job {
	uint64_t id, devices;  /* a bit each */
	struct keeper *keeper; /* NULL: ours */
	uint64_t ticket_ns, since_ns;
	uint64_t length_ns, exchange_ns, bytes, on_host;
	uint32_t states; /* of its members: a bit each */
	bool is_whole, wants, cannot, is_in_line;
	bool is_passed;      /* it did not take its turn when it came */
	bool has_whole_turn; /* it works, and knows of nothing against whole turns */
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

/* own: this process, which is not in it where it has not begun. keepers: who have been seen. */
void line_make(struct line *line, const struct gang_member *own, struct keepers *keepers,
               uint64_t now_ns, const struct gang_member *others, int count);
/* Returns the next job after the i-th that shares a device with this one, or -1. */
int line_next_beside(const struct line *line, const struct job *job, int i);
/* Returns whether no job shares a device with ours. */
bool line_is_alone(const struct line *line);
/* Returns how long a job's turns are, where each in the line has one while somebody waits. */
uint64_t line_length(const struct line *line, const struct job *job);
/* Returns how much of the time for which anybody may wait is left beside the others' turns. */
uint64_t line_unplanned(const struct line *line);
/*
 * Returns why those in the line cannot take whole turns, or GANG_NOTHING. device_bytes: no device
 * has more; 0: that is not known.
 */
enum gang_why line_why_not(const struct line *line, uint64_t host_room, uint64_t device_bytes);
bool line_goes_before(const struct job *a, const struct job *b);
bool line_waits(const struct job *job);
/* Returns whether it waits, and others have it go before them. */
bool line_has_place(const struct job *job);
/* Returns when the job's turn ends if somebody waits for it. */
uint64_t line_turn_end(const struct line *line, const struct job *job);
/*
 * Returns until when a job that waits is kept waiting by others than this one and those beside it;
 * 0: it is not.
 */
uint64_t line_kept_until(const struct line *line, const struct job *job, const struct job *but);

#endif
