/*
 * The file listener: inotify on folders says when to look, a fingerprint of each file what changed.
 *
 * It runs inside the user's process, on the owner's thread: no thread, no signal, nothing global;
 * without inotify (its instances are few per user) it works by being called every LISTENER_POLL_MS.
 */
#include "core/config/listener.h"

#include "core/config/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

/* What differs once a file was replaced or written; all zero: there is none. */
struct fingerprint {
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	int64_t seconds;
	uint32_t nanoseconds;
	uint64_t content; /* two writes within one tick of the clock of the file system */
};

struct handler {
	struct handler *next, *prev;
	char *name;
	char *path;
	void (*changed)(void *cookie, const char *path);
	void *cookie;
	struct fingerprint seen;
	int watch;    /* of the folder, or of the nearest one that exists; -1: none */
	bool removed; /* while its list is being walked */
};

struct listener {
	struct handler *handlers;
	int fd;
	bool checking;
};

static struct fingerprint fingerprint_of(const char *path)
{
	struct fingerprint print = {0};
	struct statx status; /* stat() has no old version in glibc */
	char *text;
	size_t length;

	if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &status) != 0)
		return print;
	print.device = (uint64_t)status.stx_dev_major << 32 | status.stx_dev_minor;
	print.inode = status.stx_ino;
	print.size = status.stx_size;
	print.seconds = status.stx_mtime.tv_sec;
	print.nanoseconds = status.stx_mtime.tv_nsec;
	if (config_file_load(path, true, &text, &length) == 0) {
		print.content = config_hash(text, length);
		free(text);
	}
	return print;
}

static bool same_fingerprint(const struct fingerprint *a, const struct fingerprint *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->seconds == b->seconds && a->nanoseconds == b->nanoseconds &&
	       a->content == b->content;
}

/* Cuts the last component off; false at the top. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash) {
		if (strcmp(path, ".") == 0)
			return false;
		strcpy(path, ".");
	} else if (slash == path) {
		if (path[1] == '\0')
			return false;
		path[1] = '\0';
	} else {
		*slash = '\0';
	}
	return true;
}

static bool is_watched(const struct listener *listener, int watch)
{
	const struct handler *handler;

	DL_FOREACH (listener->handlers, handler)
		if (handler->watch == watch)
			return true;
	return false;
}

/* Folders come, go and are replaced, so this is repeated; the kernel knows the ones it has. */
static void watch_folder(struct listener *listener, struct handler *handler)
{
	const uint32_t events = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVE | IN_DELETE_SELF |
	                        IN_MOVE_SELF | IN_ONLYDIR;
	int before = handler->watch;
	char folder[PATH_MAX];

	if (listener->fd < 0)
		return;
	strcpy(folder, handler->path);
	handler->watch = -1;
	while (handler->watch < 0 && go_up(folder))
		handler->watch = inotify_add_watch(listener->fd, folder, events);
	if (before >= 0 && !is_watched(listener, before))
		inotify_rm_watch(listener->fd, before);
}

struct listener *listener_create(void)
{
	struct listener *listener = calloc(1, sizeof(*listener));

	if (listener)
		listener->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return listener;
}

static void free_handler(struct handler *handler)
{
	free(handler->name);
	free(handler->path);
	free(handler);
}

void listener_destroy(struct listener *listener)
{
	struct handler *handler, *next;

	if (!listener)
		return;
	DL_FOREACH_SAFE(listener->handlers, handler, next)
	free_handler(handler);
	if (listener->fd >= 0)
		close(listener->fd);
	free(listener);
}

static struct handler *find(const struct listener *listener, const char *name)
{
	struct handler *handler;

	DL_FOREACH (listener->handlers, handler)
		if (!handler->removed && strcmp(handler->name, name) == 0)
			return handler;
	return NULL;
}

int listener_add(struct listener *listener, const char *name, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie)
{
	struct handler *handler;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (find(listener, name))
		return -EEXIST;
	handler = calloc(1, sizeof(*handler));
	if (!handler)
		return -ENOMEM;
	handler->name = strdup(name);
	handler->path = strdup(path);
	if (!handler->name || !handler->path) {
		free_handler(handler);
		return -ENOMEM;
	}
	handler->changed = changed;
	handler->cookie = cookie;
	handler->watch = -1;
	DL_APPEND(listener->handlers, handler);
	/* In this order a change in between is seen twice rather than never. */
	watch_folder(listener, handler);
	handler->seen = fingerprint_of(path);
	return 0;
}

/* Frees what was removed; not while a check walks the list. */
static void sweep(struct listener *listener)
{
	struct handler *handler, *next;

	DL_FOREACH_SAFE(listener->handlers, handler, next)
	{
		if (!handler->removed)
			continue;
		DL_DELETE(listener->handlers, handler);
		if (handler->watch >= 0 && !is_watched(listener, handler->watch))
			inotify_rm_watch(listener->fd, handler->watch);
		free_handler(handler);
	}
}

int listener_remove(struct listener *listener, const char *name)
{
	struct handler *handler = find(listener, name);

	if (!handler)
		return -ENOENT;
	handler->removed = true;
	if (!listener->checking)
		sweep(listener);
	return 0;
}

int listener_fd(const struct listener *listener)
{
	return listener->fd;
}

/* Events say only that it is time to look. */
static void drain_events(const struct listener *listener)
{
	char events[4096];

	if (listener->fd >= 0)
		while (read(listener->fd, events, sizeof(events)) > 0)
			;
}

int listener_check(struct listener *listener)
{
	struct handler *handler;
	int called = 0;

	if (listener->checking)
		return 0;
	listener->checking = true;
	drain_events(listener);
	DL_FOREACH (listener->handlers, handler) {
		struct fingerprint now;

		if (handler->removed)
			continue;
		watch_folder(listener, handler);
		now = fingerprint_of(handler->path);
		if (same_fingerprint(&now, &handler->seen))
			continue;
		handler->seen = now;
		handler->changed(handler->cookie, handler->path);
		called++;
	}
	listener->checking = false;
	sweep(listener);
	return called;
}
