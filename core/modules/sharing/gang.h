/* SPDX-License-Identifier: MIT */
/*
 * Exclusive turns: of the jobs that share devices and take exclusive turns, each has all its
 * devices at once, with all its memory on them, or none.
 *
 * member   one process of a job, as its peer records describe it
 * gang     a member, and what it remembers: this process
 * ticket   since when a job waits; the job that has waited longest is first in line
 * line     all jobs that share devices, directly or through other jobs
 *
 * No process decides for all: each reads the records of the other members and changes its own
 * state. A member writes that it takes the devices, and then looks whether another one has them or
 * takes them, too. Of two that see each other the one with the earlier ticket stays. So two never
 * have a device, however late the records are seen. A job has its turn when all its members take
 * it; if one leaves, all do.
 *
 * Pure: a function of the time, this process's facts, and the members that it sees. Members that
 * may share a turn file with this process are believed, other members count as jobs of fine turns
 * (member.h). One deadline holds per turn: a job that has waited for GANG_WAIT_NS goes on by fine
 * turns, because a peer lives and is stuck.
 */
#ifndef SPILLWAY_GANG_H
#define SPILLWAY_GANG_H

#include "core/modules/sharing/member.h"

/* The facts of this process. */
struct gang_facts {
	bool wants;         /* it works, or is held back */
	bool has_left;      /* all that can move has left the devices, and nothing is in flight */
	bool is_back;       /* all that can has come back to them */
	uint64_t host_room; /* of the machine, for the spilled memory of all jobs */
	enum gang_why why;  /* the reason against exclusive turns in any case; else GANG_NOTHING */
};

struct gang {
	struct gang_member own; /* the caller sets its identity, its devices, length, bytes */
	/* private */
	uint64_t fine_until_ns;      /* there are fine turns until then, for own.why */
	uint64_t gave_up_ns;         /* since when there are; 0: turns are exclusive */
	uint64_t overtakes_until_ns; /* our turn ends then, for those we overtook */
	uint64_t cleared_ns;         /* since when the devices are free for us to take */
	uint64_t left_ns;            /* for which our memory left, the last time */
	int devices;                 /* at the last step */
	bool was_alone;              /* likewise */
};

/*
 * Goes one step on. own.state then names the work to do. Launches are held back unless it is
 * GANG_FREE or GANG_HAS (gang_holds()). Memory leaves where gang_yields(). In GANG_TAKES memory
 * comes back as the memory of other jobs leaves (gang_room()). own is to be published after each
 * step, and the members are to be seen anew after that, before the next. A permission lasts for
 * GANG_LEASE_NS after it was published; then the process counts as stopped.
 *
 * To be called twice before the process uses a device, with a gang that is zero except for the
 * fields that the caller sets.
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
 * Returns how much of a device's memory we may hold in GANG_TAKES. That is the device's memory
 * (all), less the memory that other jobs still hold, less a margin. It is at most one step more
 * than we hold now.
 */
uint64_t gang_room(uint64_t all, uint64_t others_hold, uint64_t margin, uint64_t we_hold,
                   uint64_t step);

#endif
