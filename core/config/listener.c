/*
 * The file listener: inotify on folders says when to look, a hash of each file whether it changed.
 *
 * A file that is being written may be empty, or end in the middle of a number. So a change is told
 * when an event says that it is complete, or else when two looks in a row find the same.
 *
 * It runs inside the user's process, on the owner's thread: no thread, no signal, nothing global, and
 * no descriptor is trusted to be still ours: it bears a mark that only we can have given it. Without
 * inotify (its instances are few per user) it works by being called every LISTENER_POLL_MS.
 */
#include "core/config/listener.h"

#include "core/base/descriptor.h"
#include "core/config/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a reader would find. */
struct content {
	int status; /* 0, or the negative errno: missing counts too */
	uint64_t hash;
};

struct handler {
	struct handler *next;
	char *name;
	char *path;
	void (*changed)(void *cookie, const char *path);
	void *cookie;
	struct content told;
	struct content looked;
	bool complete; /* an event said so */
	int watch;     /* of the folder, or of the nearest one that exists; -1: none */
	bool removed;  /* while the list is being walked */
};

struct listener {
	struct handler *handlers;
	int fd;
	pid_t mark; /* thread id of the creator, which fd bears as its owner */
	bool checking;
};

static struct content look(const char *path)
{
	struct content content = {0};
	char *text;
	size_t length;

	content.status = config_file_load(path, true, &text, &length);
	if (content.status == 0) {
		content.hash = config_hash(text, length);
		free(text);
	}
	return content;
}

static bool same(const struct content *a, const struct content *b)
{
	return a->status == b->status && a->hash == b->hash;
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
	for (const struct handler *handler = listener->handlers; handler; handler = handler->next)
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

/*
 * Marks the descriptor by its owner. An open file has one, who would get its signals had they been
 * asked for. A program may have an inotify descriptor of its own, and even make itself, a process,
 * its owner, but never a thread of ours.
 */
static bool give_mark(struct listener *listener)
{
	struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};

	listener->mark = owner.pid;
	return fcntl(listener->fd, F_SETOWN_EX, &owner) == 0;
}

static bool bears_mark(const struct listener *listener)
{
	struct f_owner_ex owner = {0};

	return listener->fd >= 0 && fcntl(listener->fd, F_GETOWN_EX, &owner) == 0 &&
	       owner.type == F_OWNER_TID && owner.pid == listener->mark;
}

struct listener *listener_create(void)
{
	struct listener *listener = calloc(1, sizeof(*listener));

	if (!listener)
		return NULL;
	listener->fd = descriptor_above_stdio(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
	if (listener->fd >= 0 && !give_mark(listener)) {
		close(listener->fd);
		listener->fd = -1;
	}
	return listener;
}

/* Programs close descriptors they do not know, and the number may be theirs by now. */
static void check_descriptor(struct listener *listener)
{
	if (bears_mark(listener))
		return;
	listener->fd = -1;
	for (struct handler *handler = listener->handlers; handler; handler = handler->next)
		handler->watch = -1;
}

void listener_abandon(const struct listener *listener)
{
	/* The handlers may be half way through a change. */
	if (bears_mark(listener))
		close(listener->fd);
}

static void free_handler(struct handler *handler)
{
	free(handler->name);
	free(handler->path);
	free(handler);
}

void listener_destroy(struct listener *listener)
{
	struct handler *next;

	if (!listener)
		return;
	check_descriptor(listener);
	for (struct handler *handler = listener->handlers; handler; handler = next) {
		next = handler->next;
		free_handler(handler);
	}
	if (listener->fd >= 0)
		close(listener->fd);
	free(listener);
}

static struct handler *find(const struct listener *listener, const char *name)
{
	for (struct handler *handler = listener->handlers; handler; handler = handler->next)
		if (!handler->removed && strcmp(handler->name, name) == 0)
			return handler;
	return NULL;
}

int listener_add(struct listener *listener, const char *name, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie)
{
	struct handler **end = &listener->handlers;
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
	while (*end)
		end = &(*end)->next;
	*end = handler;
	check_descriptor(listener);
	/* In this order a change in between is seen twice rather than never. */
	watch_folder(listener, handler);
	handler->told = handler->looked = look(path);
	return 0;
}

/* Frees what was removed; not while a check walks the list. */
static void sweep(struct listener *listener)
{
	struct handler **link = &listener->handlers;

	while (*link) {
		struct handler *handler = *link;

		if (!handler->removed) {
			link = &handler->next;
			continue;
		}
		*link = handler->next;
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
	if (listener->checking)
		return 0;
	check_descriptor(listener);
	sweep(listener);
	return 0;
}

int listener_fd(const struct listener *listener)
{
	return listener->fd;
}

/* Takes one event. A rename counts under any name: it may be a symlink on the way to the file. */
static void take_event(struct listener *listener, const struct inotify_event *event)
{
	for (struct handler *handler = listener->handlers; handler; handler = handler->next) {
		const char *slash = strrchr(handler->path, '/');
		const char *name = slash ? slash + 1 : handler->path;

		if (handler->watch == event->wd &&
		    (event->mask & IN_MOVED_TO ||
		     (event->mask & IN_CLOSE_WRITE && strcmp(event->name, name) == 0)))
			handler->complete = true;
	}
}

static void take_events(struct listener *listener)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t length;

	if (listener->fd < 0)
		return;
	while ((length = read(listener->fd, events, sizeof(events))) > 0) {
		const char *next = events;

		while (next < events + length) {
			const struct inotify_event *event = (const void *)next;

			take_event(listener, event);
			next += sizeof(*event) + event->len;
		}
	}
}

/*
 * Returns whether nothing about the file is known, because the process is out of descriptors or
 * memory.
 */
static bool is_unknown(const struct content *content)
{
	return content->status == -EMFILE || content->status == -ENFILE ||
	       content->status == -ENOMEM;
}

static bool has_changed(struct handler *handler)
{
	struct content now = look(handler->path);
	bool settled = handler->complete || same(&now, &handler->looked);

	if (is_unknown(&now))
		return false;
	handler->complete = false;
	handler->looked = now;
	if (!settled || same(&now, &handler->told))
		return false;
	handler->told = now;
	return true;
}

int listener_check(struct listener *listener)
{
	int called = 0;

	if (listener->checking)
		return 0;
	listener->checking = true;
	check_descriptor(listener);
	take_events(listener);
	for (struct handler *handler = listener->handlers; handler; handler = handler->next) {
		if (handler->removed)
			continue;
		watch_folder(listener, handler);
		if (!has_changed(handler))
			continue;
		handler->changed(handler->cookie, handler->path);
		called++;
	}
	listener->checking = false;
	sweep(listener);
	return called;
}
