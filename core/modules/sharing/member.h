/* SPDX-License-Identifier: MIT */
/*
 * A member: one process of a job that takes exclusive turns, as its peer records describe it
 * (gang.h).
 */
#ifndef SPILLWAY_SHARING_MEMBER_H
#define SPILLWAY_SHARING_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/hash.h"
#include "core/peers/peers.h"

enum { GANG_DEVICES = 16, GANG_MEMBERS = 128 };

/* No job waits longer; one that would wait longer runs by fine turns. */
#define GANG_WAIT_NS 120000000000ull
/* A turn lasts so many times as long as the exchange that it costs, at least. */
enum { GANG_WORTH = 10 };
/* A process that is silent for longer is frozen: other processes go on without it. */
#define GANG_SILENT_NS 2000000000ull
#define GANG_LEASE_NS  1000000000ull
/* A job that had to give exclusive turns up tries again after so long. */
#define GANG_AGAIN_NS 600000000000ull

enum gang_state {
	GANG_FREE,   /* there are no turns: no other job is there, or turns are fine */
	GANG_WAITS,  /* for its turn; its memory has left */
	GANG_TAKES,  /* its turn is next: its memory comes as the other's leaves */
	GANG_HAS,    /* its turn */
	GANG_LEAVES, /* its turn is over, its memory leaves */
	GANG_RESTS,  /* it has no turn and wants none */
	GANG_STATES
};

/* Why a job that is to take exclusive turns takes none. */
enum gang_why {
	GANG_NOTHING,     /* it does, or is alone */
	GANG_FINE_BESIDE, /* a job beside it works by fine turns */
	GANG_HOST_FULL,   /* the host cannot hold the memory that all of them would put there */
	GANG_TOO_MANY,    /* a job would wait too long, or turns would be too short */
	GANG_WAITED,      /* it has waited too long */
	GANG_OTHER_NODES, /* it has ranks on other machines */
	GANG_UNMOVABLE,   /* its memory cannot move */
	GANG_WHYS
};

struct gang_member {
	uint64_t process, job;         /* numbers that no other process, and no other job, has */
	uint32_t device[GANG_DEVICES]; /* hashes of the devices it uses; 0: no more */
	uint64_t beat_ns;              /* when it said so */
	uint32_t state, why;           /* enum gang_state, enum gang_why */
	bool is_exclusive;             /* its turns are to be exclusive */
	bool wants;                    /* it works, or is held back */
	uint64_t ticket_ns;            /* while it waits, takes, has: since when it waited */
	uint64_t since_ns;             /* when its state began */
	uint64_t length_ns;            /* of its turns, as they are to be */
	uint64_t exchange_ns;          /* for which its memory leaves and comes back */
	uint64_t bytes, on_host;       /* that the host must hold once it has left; holds by now */
};

/* Returns whether a member is another process that lives; a time to come is as good as none. */
bool member_lives(const struct gang_member *m, const struct gang_member *own, uint64_t now_ns);
/* Returns a number that no other user has, of one that a user's processes tell apart. */
static inline uint64_t member_number(uid_t user, uint64_t number)
{
	return hash_word(hash_word(HASH_NOTHING, user), number);
}
/* Returns the hash by which members name a peer record's device; never 0. */
static inline uint32_t member_device(const struct peer_record *record)
{
	uint32_t hash = (uint32_t)(record->device ^ record->device >> 32);

	return hash ? hash : 1;
}
/*
 * Returns a peer record's process as a member. It has no device where the peer record says nothing
 * of turns yet. A process is the same member by each of its peer records.
 *
 * is_trusted: the processes may share a turn file (core/pages/turns.h), because both are of one
 * user or of the group to which root gave the file. Only such a member takes exclusive turns with
 * us, and its whole record is believed. Any other process counts as a job of fine turns.
 */
struct gang_member member_of(const struct peers_other *other, bool is_trusted, uint64_t now_ns);
/* Writes the member on one of a process's peer records. number: the same on all of them, not 0. */
void member_tell(const struct gang_member *own, uint64_t number, struct peer_record *record);

/* Returns how a state, or a reason, is called where people read it; never NULL. */
const char *gang_state_name(uint32_t state);
const char *gang_why_text(uint32_t why);

/*
 * Returns the variable by which a launcher says that the job has ranks on other machines, or NULL.
 * get: as getenv().
 */
const char *gang_other_nodes(char *(*get)(const char *name));

#endif
