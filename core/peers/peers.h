/* SPDX-License-Identifier: MIT */
/*
 * The peer records of other processes on a device: found, copied and judged.
 *
 * Nothing in a peer record is believed except for its owner: its name has user and token, and both
 * must be the file's. A file that is short, linked, of another kind or version, or does not fit its
 * check is skipped. Of one user a bounded number is looked at, and of other users a bounded number
 * in all. A file with an owner other than the one in its name is never opened. A peer record with a
 * dead owner is seen at the next copy, and removed if it is the caller's user's.
 *
 * One thread uses a struct peers; several have one each.
 */
#ifndef SPILLWAY_PEERS_H
#define SPILLWAY_PEERS_H

#include <sys/types.h>

#include "core/peers/peer.h"
#include "core/state/listing.h"

enum { PEERS_MAX = 64, PEERS_OF_OTHER_USER = 16, PEERS_OF_OTHER_USERS = 32 };
/* At one look so many files of another user are opened that turn out to be no live peer records. */
enum { PEERS_TRIED = 64 };

struct peers_other {
	uid_t owner;
	gid_t group;               /* of the file: the owner is a member of it */
	bool is_silent;            /* no sign of life for PEER_SILENT_NS: its process is frozen */
	struct peer_record record; /* the last whole copy */
	/* private */
	uint64_t token, device;
	int fd;
	dev_t volume;
	ino_t inode;
	bool is_there; /* was seen at this look */
};

/*
 * A repeated listing of a directory that other users may fill. It costs as much as there are names.
 * In a directory of more than LISTING_SMALL names the next look waits for LISTING_DUTY times as
 * long as the last one took, times the number of readers in this process. A process reads no more
 * than LISTING_A_SECOND names a second. For example, 200,000 names that take 40 ms are read every
 * 16 s by one reader. That is 0.25 % of a processor.
 *
 * In between a reader glances at the first LISTING_SMALL names, by as much duty again. On tmpfs
 * most kernels list the newest first, so that new jobs meet at once beside any crowd. Elsewhere
 * they meet at the next look.
 */
enum { LISTING_SMALL = 256, LISTING_DUTY = 400, LISTING_A_SECOND = 20000 };

/* One reader that comes again; zero at first. */
struct listing {
	bool is_counted;
	int entries;        /* seen since it was due */
	uint64_t took_ns;   /* likewise */
	uint64_t next_ns;   /* 0: at once */
	uint64_t glance_ns; /* likewise, of a glance */
};

struct peers {
	const char *node, *state; /* directories; kept */
	const char *uuid;         /* likewise; NULL: of all devices */
	uint64_t own_token;       /* passed over */
	/* private */
	uint64_t looked_ns, node_changed_ns, state_changed_ns;
	struct listing listing;
	bool has_unmet; /* a name may be there that is none of the peer records yet */
	/* to be read */
	int count;
	struct peers_other other[PEERS_MAX];
};

/*
 * Sets which users may be of the highest priority there is; a record of any other user that says so
 * counts as one below. To be called once, before peer records are looked at; before that all users
 * may.
 */
void peers_judge(bool (*may_be_highest)(uid_t owner), uint8_t highest);
/* Zeroes it. own_token: the caller's own peer record, 0: it has none. */
void peers_start(struct peers *peers, const char *node, const char *state, const char *uuid,
                 uint64_t own_token);
/*
 * Finds peer records that have come, forgets those that have gone, and copies all. Returns how many
 * there are. Goes through the two directories where one has changed, and no more often than
 * struct listing lets it.
 */
int peers_look(struct peers *peers, uint64_t now_ns);
/*
 * Copies those anew that are known: three system calls each, no name looked up. Those of the dead
 * go. Looks where a directory has changed, at the soonest 10 ms after the last look. Returns how
 * many there are.
 */
int peers_copy(struct peers *peers, uint64_t now_ns);
/* Lets go of all of them. */
void peers_end(struct peers *peers);
/* Removes the peer records of our user in a directory, of any device, with dead owners. */
void peers_sweep(const char *directory, uint64_t now_ns);
/*
 * Wakes the owners of those that are known, so that they look at once: three system calls each.
 * Returns whether all heard it. An owner that is just looking does not hear it, and the caller may
 * ring again. An owner is also rung when its peer record is met.
 */
bool peers_ring(const struct peers *peers);

#endif
