/* SPDX-License-Identifier: MIT */
/*
 * Files that should be our own regular ones, in a directory where another user may have put
 * anything. For example, there may be a pipe, whose opening waits for a reader, a link, a file of
 * another user, or a lock that is never given back. To open a file in this way waits for
 * no other process.
 */
#ifndef SPILLWAY_OWN_FILE_H
#define SPILLWAY_OWN_FILE_H

#include <sys/types.h>

struct deadline;

/*
 * Opens NAME in the directory, which may be AT_FDCWD, if it is a regular file of our effective
 * user. Returns a descriptor, CLOEXEC, or a negative errno: -ELOOP a link, -EINVAL no regular file,
 * -EPERM of another user.
 */
int own_file_open(int directory, const char *name, int flags, mode_t mode);
/* Says what own_file_open() or own_file_lock() found. */
const char *own_file_error(int error);
/*
 * Locks the file, flock(2), waiting for its holder until the deadline. Returns 0 or a negative
 * errno; -ETIME: it was held all that time.
 */
int own_file_lock(int fd, int operation, struct deadline *deadline);

#endif
