/*
 * Tells when configuration files change, without a thread of its own.
 *
 * It watches the *folders* of the named files by inotify (editors rename, Kubernetes swaps a
 * symlink), and looks at the files themselves every LISTENER_POLL_MS as fallback. The owner's
 * helper thread polls listener_fd() and calls listener_check() when it is readable or the time is
 * up. A file or folder that does not exist yet is watched for.
 */
#ifndef SPILLWAY_LISTENER_H
#define SPILLWAY_LISTENER_H

#include <stdbool.h>

enum { LISTENER_POLL_MS = 1000 };

struct listener;

/*
 * Makes a listener; NULL: no memory. changed() runs on the thread that calls listener_check(), once
 * per changed file and check.
 */
struct listener *listener_create(void); /* NULL: no memory. No inotify left: works by polling. */
void listener_destroy(struct listener *listener);
/* Lets go of the descriptor in a forked child, and of nothing else. */
void listener_abandon(const struct listener *listener);
/*
 * Adds a file to watch; several handlers, each with its own name, may watch one file. Returns 0,
 * -EEXIST, -ENAMETOOLONG or -ENOMEM.
 */
int listener_add(struct listener *listener, const char *name, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie);
int listener_remove(struct listener *listener, const char *name); /* 0 or -ENOENT */
int listener_fd(const struct listener *listener);                 /* -1: polling only */
/* Calls the handlers of files that came, went or say something else. Number called. */
int listener_check(struct listener *listener);

#endif
