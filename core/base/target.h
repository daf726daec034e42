/* SPDX-License-Identifier: MIT */
/*
 * Targets: the destination of output to a file that the user named: a new file, an old one that is
 * replaced, or an object that is written into.
 *
 * Renaming a finished file over the old one is right for a file, because readers never see half of
 * it. It is wrong for everything else: a device would become a file, for all programs of the
 * machine. A link is followed, as by any program that writes. An exception is a link that another
 * user put into a directory to which all users may write, as /tmp. The kernel does the same where
 * fs.protected_symlinks is set. No allocation; errno is untouched on success.
 */
#ifndef SPILLWAY_TARGET_H
#define SPILLWAY_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum target_kind {
	TARGET_NEW,    /* nothing is there */
	TARGET_FILE,   /* a regular file: to be replaced */
	TARGET_STREAM, /* a device, a pipe, a socket, another's descriptor: to be written into */
	TARGET_DESCRIPTOR, /* one of our own descriptors, as /dev/stdout is */
};

struct target {
	char path[PATH_MAX]; /* where the links led */
	enum target_kind kind;
	int descriptor; /* of TARGET_DESCRIPTOR */
	mode_t mode;    /* of TARGET_FILE: its permissions */
	uid_t owner;    /* of TARGET_FILE, or of the link that is not followed */
	bool is_strangers_link;
	bool is_kernels_link; /* of a TARGET_STREAM: it is opened through a link of /proc */
};

/*
 * Finds it. Returns 0 or a negative errno: -EACCES and is_strangers_link for a link that is not
 * followed, -EISDIR for a directory.
 */
int target_find(const char *path, struct target *target);
/*
 * Opens a TARGET_STREAM, without waiting: -ENXIO for a pipe without a reader, -EAGAIN where another
 * object has come into its place meanwhile. Returns a descriptor of its own, CLOEXEC, that does not
 * wait either, or a negative errno.
 */
int target_open(const struct target *target);

#endif
