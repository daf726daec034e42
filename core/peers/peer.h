/* SPDX-License-Identifier: MIT */
/*
 * A peer record: the facts that one process publishes on a device, so that jobs share it by need.
 *
 * card-UUID-UID-TOKEN  a file of PEER_SIZE bytes, 0644, in the node's directory, or where that
 *                      cannot be written to in the user's state directory (directory.h)
 * owner                the process that made it. It alone maps the file, and the mapping holds a
 *                      lock on it (F_OFD_SETLK), so that its death is known at once
 *
 * Every other process copies it by one pread (peers.h): a file that its owner cuts short does no
 * harm. Its contents are the owner's word and no more: a process that acts on them bounds the cost
 * of a lie. A copy that was taken while it was written does not fit its check.
 *
 * All times are CLOCK_MONOTONIC, all parts of a whole in millionths (ppm).
 */
#ifndef SPILLWAY_PEER_H
#define SPILLWAY_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/hash.h"
#include "core/base/shared_file.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"

#define PEER_MAGIC "SPILCARD"
enum { PEER_VERSION = 1, PEER_SIZE = 512, PEER_GANG = 16 };

/* Its owner writes so often in any case; one that is silent for longer is frozen. */
#define PEER_BEAT_NS   1000000000ull
#define PEER_SILENT_NS 3000000000ull
/*
 * A process that asks the others whether they work asks for so long; their helpers look every
 * second.
 */
#define PEER_ASKS_NS 4000000000ull

/* Whether a job works. An unknown answer counts as working. */
enum peer_working { PEER_IDLE, PEER_WORKS, PEER_UNKNOWN };

static const struct shared_format peer_format = {
    .magic = PEER_MAGIC, .version = PEER_VERSION, .size = PEER_SIZE};

struct peer_record {
	/* peer.c fills these in */
	char magic[8]; /* PEER_MAGIC */
	uint32_t version, size;
	uint64_t check;    /* of all that follows */
	uint64_t sequence; /* counts writings */
	uint64_t token;    /* as in its name */
	uint64_t device;   /* hash of the UUID */
	uint64_t beat_ns;  /* when it was written last */
	int32_t pid;
	uint8_t is_locked; /* 0: there are no such locks here; only the beat says that it lives */

	/* common */
	uint8_t priority;       /* enum config_priority */
	uint8_t turn;           /* enum config_turn */
	uint8_t working;        /* enum peer_working */
	uint64_t job;           /* hash of its name and user */
	uint64_t launches;      /* ever; kept while another process asks */
	uint64_t looked_ns;     /* when launches and working were true */
	uint64_t asked_ns;      /* until when this process asks the others to keep theirs */
	uint64_t idle_since_ns; /* the time that idle_yield counts; 0: it is not idle */
	uint32_t in_flight;     /* of work; 0: nothing is */
	uint32_t tells_memory;  /* its memory was written lately; 0: it has written none yet */

	/* time: the loss that a guaranteed job bears, and the part that a best-effort job takes */
	uint32_t slowdown_ppm;           /* allowed */
	int32_t loss_ppm;                /* measured, */
	uint32_t loss_error_ppm;         /* give or take so much */
	uint32_t loss_number;            /* counts measurements */
	uint32_t takes_ppm;              /* of the gaps, by a best-effort job */
	uint32_t is_measured_by_steps;   /* else by launches */
	uint64_t speed_alone, speed_now; /* launches or steps in 1,000 s */
	uint64_t gap_ns, returns;        /* a gap's length lately; gaps in 1,000 s */

	/* memory, in bytes */
	uint64_t limit, entitled, held, movable, on_host, borrowed;
	uint64_t claim, claim_since_ns;
	uint64_t yielded; /* given to other jobs, and still on the host */
	uint64_t cooldown_until_ns;
	uint64_t link; /* bytes in a second */
	uint32_t claim_must_be_on_device;
	uint32_t asks_owner; /* the job with the grant asks this job, of this user, */
	uint64_t asks_job, asks_down_to;
	uint64_t keeps, keeps_for_ns; /* to which claim it gives, and down to where */

	/* exclusive turns */
	uint32_t gang[PEER_GANG]; /* hashes of the UUIDs of its devices; 0: no more */
	uint64_t
	    turn_process; /* the same on all peer records of the process; 0: it has not begun */
	uint64_t turn_beat_ns, turn_ticket_ns, turn_since_ns, turn_length_ns, turn_exchange_ns;
	uint64_t turn_bytes, turn_on_host;
	uint32_t turn_state;
	uint16_t turn_why, turn_wants;

	uint32_t waits; /* enum claim_wait: why memory on the host stays there */
	_Atomic uint32_t
	    bell; /* 0 always: other processes ring it (peers_ring()), and read alone */
	uint64_t gap_since_ns; /* the gap that gap_ns is about; 0: it is in none */
	uint64_t context; /* bytes that the driver takes for the process, as far as it is known */
	uint64_t burst_ends_ns; /* when its work should end; 0: unknown */
	uint64_t segment;       /* the token of the job's books; 0: it is in none */
	uint64_t unused[5];
};

/* Where a peer record lies. */
struct peer_place {
	struct peer_record *mapped; /* NULL: there is no peer record */
	char path[600];
	uint64_t token;
	dev_t volume;
	ino_t inode;
	bool is_locked;
	bool is_inherited; /* a child is given the mapping, and gives it back */
};

struct peer_own {
	LOCK_OF(PEER_RECORD) lock;
	struct peer_record now; /* its contents */
	const char *node;       /* the node's directory */
	char uuid[64];
	gid_t group; /* to which the file is given, as a proof that we are of it; 0: to none */
	struct peer_place place;
};

/*
 * Makes this process's peer record of the device with this UUID. node: the node's directory, kept.
 * The peer record has the content of own->now when other processes first see it: the caller fills
 * that in before. Returns 0, or a negative errno and why. Opens files; not for hooks.
 */
int peer_make(struct peer_own *own, const char *node, const char *uuid, char *message, size_t size);
/*
 * Surrounds a change of the peer record's contents: peer_edit() takes its lock, peer_publish()
 * writes and gives it back. Each needs no system call, except for the lock. Any thread; also
 * without a peer record.
 */
struct peer_record *peer_edit(struct peer_own *own);
void peer_publish(struct peer_own *own, uint64_t now_ns);
/* Returns the word by which other processes ring; NULL: there is no peer record. */
_Atomic uint32_t *peer_bell(struct peer_own *own);
/*
 * Returns the number in the peer record's name, which is another once it was made anew. Any thread.
 */
uint64_t peer_token(struct peer_own *own);
/*
 * Looks whether the file is still there, because other processes of the user may have removed it;
 * else makes it anew. Writes a sign of life. One thread at a time.
 */
void peer_poll(struct peer_own *own, uint64_t now_ns);
/*
 * Removes the peer record: the process exits. Where its lock is not given back in time, because it
 * is held below the signal handler that exits perhaps, the file stays for other processes to sweep.
 */
void peer_remove(struct peer_own *own, struct deadline *until);
/* Forgets the peer record, in a forked child, which has no part in it. */
void peer_forked(struct peer_own *own);

/* Returns the check that a peer record must have. */
uint64_t peer_check(const struct peer_record *record);
/* Returns the hash by which peer records name a device. */
static inline uint64_t peer_device(const char *uuid)
{
	return hash_text(HASH_NOTHING, uuid);
}

#endif
