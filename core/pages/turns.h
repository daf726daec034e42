/* SPDX-License-Identifier: MIT */
/*
 * The turn file of a device: words by which processes of all jobs on it take turns, so that one
 * works at a time.
 *
 * A process that may write to the file may also cut it short, which kills the processes that have
 * mapped it. So it is shared only by processes that could harm each other anyway, or that the
 * administrator chose. The first that will do:
 *
 * turns-UUID      in the node's directory (/run/spillway, SPILLWAY_NODE_DIR), made by root, empty
 *                 or not, for the users that its mode lets write, except for all of them
 * turns-UUID-UID  there, made by us, 0600: for our user's jobs in all Docker containers that have
 *                 this directory
 * turns-UUID      in the state directory (directory.h), made by us, 0600: for our user's jobs that
 *                 share that
 *
 * A file of another version serves no more. Once no process has it, it is made anew; root's is
 * emptied by root alone (turns_clean()), and until then a user's own serves.
 *
 * Its contents are not trusted all the same: with any contents, a wait for it ends
 * (core/pace/pacer_private.h).
 *
 * lane  one process that paces this device; free while its owner is 0
 *
 * No mode gives the right to write without that to cut short. Files on tmpfs cannot be sealed,
 * sealed memory has no name, and System V segments end at the border of a container. A handler for
 * SIGBUS would be one in the user's program. Jobs of users that share no file are to each other as
 * programs without Spillway.
 */
#ifndef SPILLWAY_TURNS_H
#define SPILLWAY_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { TURN_LANES = 64, TURNS_VERSION = 1 };

struct turn_lane {
	_Alignas(64) _Atomic uint64_t owner; /* a number that no other process has */
	_Atomic uint64_t job;                /* likewise, of its job */
	_Atomic uint64_t seen_ns;            /* CLOCK_MONOTONIC; when it last said that it works */
	_Atomic uint64_t wants_ns;           /* since when it waits for the turn; 0: it does not */
	_Atomic uint64_t paid_until;         /* its job's account; the earliest goes first */
	_Atomic uint32_t share;              /* thousandths of a percent */
	_Atomic uint32_t policy;             /* enum config_share_policy */
};

struct turns {
	char magic[8]; /* "SPILTURN" */
	uint32_t version;
	uint32_t size;             /* of the file */
	_Atomic uint64_t holder;   /* owner of the lane that has the turn; 0: none */
	_Atomic uint64_t began_ns; /* when it got it */
	_Atomic uint32_t changed;  /* a process that waits for the turn waits for this word */
	_Atomic uint32_t lanes;    /* those at and above this index were never used */
	struct turn_lane lane[TURN_LANES];
};

/*
 * Maps the turn file of the device with this UUID, made when there is none. NULL: there cannot be
 * one, jobs do not take turns; message has the reason. The mapping stays for the life of the
 * process. Opens files, waits a second or two at most for other processes that do; any thread may
 * call it.
 */
struct turns *turns_open(const char *uuid, char *message, size_t size);
/*
 * Names the file that turns_open() would map, and makes none. False: none can be. *by_root: it is
 * root's, for more than one user. message: why one that is there would not do, else "".
 */
bool turns_find(const char *uuid, char *path, size_t path_size, bool *by_root, char *message,
                size_t size);
/*
 * Removes the user's turn files of other versions that no process has, and empties those of root's
 * where the caller is root. Returns how many.
 */
int turns_clean(void);
/*
 * Looks at root's file of a device. Returns whether there is one where turns_open() looks for it.
 */
bool turns_of_root(const char *uuid, struct stat *file);
/*
 * Returns whether turns_open() takes such a file of root's in a process of a user with these
 * groups. Pure: the caller may be another user, such as root that looks at a job of ada's.
 */
bool turns_may_use(const struct stat *file, uid_t user, const gid_t *group, int count);

#endif
