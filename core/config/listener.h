/*
 * Tells when configuration files change, without a thread of its own.
 *
 * It watches the *folders* of the named files by inotify (editors rename, Kubernetes swaps a
 * symlink), and looks at the files themselves every LISTENER_POLL_MS as fallback. The owner's
 * helper thread polls `fd` and calls listener_check() when it is readable or the time is
 * up. A file or folder that does not exist yet is watched for.
 */
#ifndef SPILLWAY_LISTENER_H
#define SPILLWAY_LISTENER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LISTENER_POLL_MS = 1000, LISTENER_FILES = 4 };

/* The state of a file as a reader would find it. */
struct listener_content {
	int status; /* 0, or the negative errno: missing counts too */
	uint64_t hash;
};

struct listener_file {
	char path[PATH_MAX];
	void (*changed)(void *cookie, const char *path);
	void *cookie;
	struct listener_content told, looked;
	bool complete; /* an event said so */
	int watch;     /* of the folder, or of the nearest one that exists; -1: none */
};

struct listener {
	struct listener_file files[LISTENER_FILES];
	int count, fd; /* fd: -1: polling only */
	pid_t mark;    /* thread id of the creator, which fd bears as its owner */
};

/* Begins with no file. Where no inotify is left it works by polling. */
void listener_start(struct listener *listener);
/* Lets go of the descriptor, if it is still ours, and of nothing else: in a forked child, too. */
void listener_abandon(const struct listener *listener);
/*
 * Watches a file from now on. Returns 0, -ENAMETOOLONG or -ENOSPC. changed() runs on the thread
 * that calls listener_check(), once per change and check.
 */
int listener_add(struct listener *listener, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie);
/*
 * Makes fd readable when somebody opens this file; to be repeated, because others may remove it. No
 * file of listener_add().
 */
void listener_watch(const struct listener *listener, const char *path);
/* Calls for files that came, went or say something else. Returns how many. */
int listener_check(struct listener *listener);

#endif
