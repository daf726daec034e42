/* SPDX-License-Identifier: MIT */
/*
 * Keepers: those that keep this process from its turn, and for how long each has since its last
 * one. For core/sharing/line.c and core/sharing/gang.c.
 *
 * A keeper is told by what was seen of it and by our clock, never by what it says. Who keeps us for
 * longer than whoever keeps to the turns would is left out, until we have had our turn and it has
 * let go: what it says is as if it were not there.
 */
#ifndef SPILLWAY_SHARING_KEEPER_H
#define SPILLWAY_SHARING_KEEPER_H

#include "core/sharing/member.h"

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
/* Returns that of a job which is not ours. */
struct keeper *keeper_of_job(struct keepers *keepers, uint64_t job);
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

#endif
