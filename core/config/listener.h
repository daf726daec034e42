/* SPDX-License-Identifier: MIT */
/*
 * Tells when configuration files change, without a thread or a descriptor of its own.
 *
 * The owner's helper thread calls listener_check() once a second, and at once when it is rung
 * (segment_ring()). It reads a file when its times, size or inode have changed, and each at every
 * LISTENER_READ-th call, because a network file system may show an old time. A file that is being
 * written may be empty or end in the middle of a number. So a change is told when two looks in a
 * row find the same, or at once where the text says that it is whole (LISTENER_WHOLE).
 *
 * There is no inotify here: a killed process waits for the kernel to release its instance, for
 * seconds on a busy machine, and its GPU memory stays held meanwhile.
 */
#ifndef SPILLWAY_LISTENER_H
#define SPILLWAY_LISTENER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	LISTENER_POLL_MS = 1000, /* between two checks */
	LISTENER_READ = 5,       /* checks */
	LISTENER_SETTLE_MS = 40, /* until the second look at a text that has changed */
	LISTENER_FILES = 4
};

/* The last line of a file that is always replaced as a whole, which `spillway set` writes. */
#define LISTENER_WHOLE "# Whole.\n"

/* The state of a file as a reader would find it. */
struct listener_content {
	int status; /* 0, or the negative errno: missing counts too */
	bool is_whole;
	uint64_t hash;
};

struct listener_file {
	char path[PATH_MAX];
	void (*changed)(void *cookie, const char *path);
	void *cookie;
	struct listener_content told, looked;
	uint64_t glanced; /* a hash of inode, times and size */
	int unread;       /* checks since the text was read */
};

struct listener {
	struct listener_file files[LISTENER_FILES];
	int count;
};

/*
 * Watches a file from now on. Returns 0, -ENAMETOOLONG or -ENOSPC. changed() runs on the thread
 * that calls listener_check(), once per change and check.
 */
int listener_add(struct listener *listener, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie);
/* Returns whether a change waits for a second look that finds the same. */
bool listener_is_unsettled(const struct listener *listener);
/* Calls for files that came, went or say something else. Returns how many. */
int listener_check(struct listener *listener);

#endif
