/* SPDX-License-Identifier: MIT */
/*
 * The state directory: where a user's jobs keep their segments and override files.
 *
 * SPILLWAY_STATE_DIR (absolute, of at most DIRECTORY_MAX characters) goes first. Else it is the
 * first of /dev/shm/spillway-UID, /run/user/UID/spillway and /tmp/spillway-UID that is there and
 * the user's own. Else it is the first of them that can be made. Made 0700. A symlink, a directory
 * of another user, or one that other users may write to is not the user's own: SPILLWAY_STATE_DIR
 * is refused then, and another place skipped.
 */
#ifndef SPILLWAY_DIRECTORY_H
#define SPILLWAY_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

enum { DIRECTORY_MAX = 400 }; /* so that every file's path in it fits a message */

/* Fills path with the directory's name, without making it. */
const char *directory_path(char *path, size_t size);
/*
 * Keeps the directory of this moment, made if it is missing, for any later environment, because
 * none of the shim's threads may read it while the program runs. Called once, before there are such
 * threads.
 */
void directory_keep(void);
/* Goes to another directory, for a tool that looks at another user's jobs; NULL: back. */
void directory_use(const char *path);
/*
 * Returns whether a place before the directory's is another user's; message then names the user,
 * and where the directory is.
 */
bool directory_passed_over(char *message, size_t size);
/* Fills path with the node's directory, for all users' jobs, without making it: SPILLWAY_NODE_DIR,
 * else /run/spillway. */
const char *directory_of_node(char *path, size_t size);
/* Opens the directory, checked, and made if create is non-zero and it is missing. Returns a
 * read-only fd (CLOEXEC) or a negative errno; message (may be NULL) then says why, naming the
 * path. */
int directory_open(int create, char *message, size_t size);
/* Opens this directory in the same way. */
int directory_open_path(const char *path, int create, char *message, size_t size);
/* Fills path with "DIR/JOB.segment", "DIR/JOB.pause.ini", "DIR/JOB.refused" or
 * "DIR/JOB.override.ini". Returns 0, -EINVAL (not a
 * job's name) or -ENAMETOOLONG. */
int directory_segment_path(const char *job, char *path, size_t size);
int directory_pause_path(const char *job, char *path, size_t size);
int directory_refused_path(const char *job, char *path, size_t size);
int directory_override_path(const char *job, char *path, size_t size);
/* Checks a job's name: 1 to 63 of [A-Za-z0-9._-], not beginning with a dot. Returns 0 or
 * -EINVAL. */
int directory_check_name(const char *job);

/*
 * Stands before the places of the default: "", unless a test has them elsewhere. Where the node's
 * directory is, unless a variable says: another one serves for files that are only copied
 * (turns.h).
 */
#define DIRECTORY_NODE "/run/spillway"
extern const char *directory_root, *directory_node;

/* Refusing: an errno for the program, a sentence for people. Private. */

/* Fills message (may be NULL) and returns error. */
int state_refuse(int error, char *message, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
