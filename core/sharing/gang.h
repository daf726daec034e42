/* SPDX-License-Identifier: MIT */
/*
 * Exclusive turns: of the jobs that share devices and take exclusive turns, each has all its
 * devices at once, with all its memory on them, or none.
 *
 * member   one process of a job, as its peer records tell the others
 * gang     a member, and what it remembers: this process
 * ticket   since when a job waits; who has waited longest is first in line
 * line     all jobs that share devices, with each other or through others
 *
 * Nobody decides for all: each process reads what the others say and changes its own state. A
 * member says that it takes the devices, and then looks whether anybody else has them or takes
 * them, too; of two who see each other the one with the earlier ticket stays. So two never have a
 * device, however late the others are seen. A job has its turn when all its members take it; if
 * one leaves, all do.
 *
 * Pure: a function of the time, what this process knows of itself, and the members that it sees.
 * Nothing they say is an index, a size, or a reason to wait for longer than GANG_WAIT_NS. Who keeps
 * us for longer than it may is ignored: a peer record may say anything, and a process may hang
 * at any point. It costs us once in each of our turns what a job costs that keeps to the rules: a
 * turn, and its exchange.
 */
#ifndef SPILLWAY_GANG_H
#define SPILLWAY_GANG_H

#include "core/sharing/member.h"

/*
 * Blocking jobs: those that keep this process from its turn, and for how long each has since its
 * last one.
 *
 * A blocking job is told by what was seen of it and by our clock, never by what it says. Who keeps
 * us for longer than whoever keeps to the turns would is ignored, until we have had our turn and
 * it has let go: what it says is as if it were not there.
 */
enum { BLOCKING_JOBS = GANG_MEMBERS };

/* By what one keeps us. */
enum keeping {
	KEEPS_PLACE,  /* it is first in line, and does not take its turn */
	KEEPS_MOVING, /* its memory leaves, or comes */
	KEEPS_TURN,   /* it has its turn */
	KEEPINGS
};

struct blocking_job {
	uint64_t id;                /* of a job; in our own job, of a process */
	uint64_t seen_ns;           /* the last time */
	uint64_t holds_ns;          /* since when it has devices; 0: it has none */
	uint64_t moved_ns;          /* when it last kept us by moving */
	uint64_t kept_ns[KEEPINGS]; /* since our last turn */
	uint64_t passed_ns;         /* its places until then are lost */
	uint64_t out_ns;            /* since when it is ignored; 0: it is not */
	bool lets_go;               /* it says of nothing that would keep us */
};

struct blocking_jobs {
	/* The first is all those together that came while we wait. */
	struct blocking_job of[BLOCKING_JOBS];
	unsigned int ignored; /* how often somebody was, lately */
	uint64_t out_ns;      /* the last time */
};

/* What this process knows of itself. */
struct gang_facts {
	bool wants;         /* it works, or is held back */
	bool has_left;      /* all that can move has left the devices, and nothing is in flight */
	bool is_back;       /* all that can has come back to them */
	uint64_t host_room; /* that the machine has left for everybody's spilled memory */
	uint64_t device_bytes; /* of the largest device; 0: that is not known */
	enum gang_why why; /* what keeps it from exclusive turns in any case; else GANG_NOTHING */
};

struct gang {
	struct gang_member own; /* the caller sets who it is, its devices, length, bytes */
	/* private */
	uint64_t fine_until_ns;      /* there are fine turns until then, for own.why */
	uint64_t gave_up_ns;         /* since when there are; 0: turns are exclusive */
	uint64_t overtakes_until_ns; /* our turn ends then, for those we overtook */
	uint64_t cleared_ns;         /* since when the devices are free for us to take */
	uint64_t left_ns;            /* for which our memory left, the last time */
	uint64_t held_ns;            /* who had the devices by then has them before us */
	uint64_t resumed_ns;         /* when we went on, after we were stopped */
	uint64_t elapsed_ns;         /* since the last step, as far as it counts */
	int devices;                 /* at the last step */
	bool was_alone;              /* likewise */
	struct blocking_jobs blocking_jobs;
};

/*
 * Goes one step on. own.state says then what is to be done: launches are held back unless it is
 * GANG_FREE or GANG_HAS (gang_holds()); memory leaves where gang_yields(), and in GANG_TAKES comes
 * back as the others' leaves (gang_room()). own is to be told to the others after each step, and
 * they are to be seen anew after that, before the next. What a process may do it may for
 * GANG_LEASE_NS after it has told so; then it counts as stopped.
 *
 * To be called twice before the process uses a device, with a gang that is zero but for what the
 * caller sets.
 */
void gang_step(struct gang *gang, uint64_t now_ns, const struct gang_facts *facts,
               const struct gang_member *others, int count);

/* Returns whether launches are held back in this state. */
static inline bool gang_holds(uint32_t state)
{
	return state != GANG_FREE && state != GANG_HAS;
}

/* Returns whether memory is to leave in this state. */
static inline bool gang_yields(uint32_t state)
{
	return state == GANG_WAITS || state == GANG_LEAVES || state == GANG_RESTS;
}

/*
 * Returns how much of a device's memory we may hold in GANG_TAKES: what there is (all), less what
 * the others still hold, less a margin; at most one step more than we hold now.
 */
uint64_t gang_room(uint64_t all, uint64_t others_hold, uint64_t margin, uint64_t we_hold,
                   uint64_t step);

#endif
