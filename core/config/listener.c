/*
 * The file listener: inotify on folders says when to look, a hash of each file whether it changed.
 *
 * A file that is being written may be empty, or end in the middle of a number. So a change is told
 * when an event says that it is complete, or else when two looks in a row find the same.
 *
 * It runs inside the user's process, on the owner's thread: no thread, no signal, nothing global,
 * and no descriptor is trusted to be still ours: it bears a mark that only we can have given it.
 * Without inotify (its instances are few per user) it works by being called every LISTENER_POLL_MS.
 */
#include "core/config/listener.h"

#include "core/base/descriptor.h"
#include "core/base/hash.h"
#include "core/config/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct listener_content look(const char *path)
{
	struct listener_content content = {0};
	char *text;
	size_t length;

	content.status = config_file_load(path, true, &text, &length);
	if (content.status == 0) {
		content.hash = hash_bytes(HASH_NOTHING, text, length);
		free(text);
	}
	return content;
}

static bool same(const struct listener_content *a, const struct listener_content *b)
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
	for (int i = 0; i < listener->count; i++)
		if (listener->files[i].watch == watch)
			return true;
	return false;
}

/* Folders come, go and are replaced, so this is repeated; the kernel knows the ones it has. */
static void watch_folder(struct listener *listener, struct listener_file *file)
{
	const uint32_t events = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVE | IN_DELETE_SELF |
	                        IN_MOVE_SELF | IN_ONLYDIR;
	int before = file->watch;
	char folder[PATH_MAX];

	if (listener->fd < 0)
		return;
	strcpy(folder, file->path);
	file->watch = -1;
	while (file->watch < 0 && go_up(folder))
		file->watch = inotify_add_watch(listener->fd, folder, events);
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

void listener_start(struct listener *listener)
{
	listener->count = 0;
	listener->fd = descriptor_above_stdio(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
	if (listener->fd >= 0 && !give_mark(listener)) {
		close(listener->fd);
		listener->fd = -1;
	}
}

/* Programs close descriptors they do not know, and the number may be theirs by now. */
static void check_descriptor(struct listener *listener)
{
	if (bears_mark(listener))
		return;
	listener->fd = -1;
	for (int i = 0; i < listener->count; i++)
		listener->files[i].watch = -1;
}

void listener_abandon(const struct listener *listener)
{
	if (bears_mark(listener))
		close(listener->fd);
}

int listener_add(struct listener *listener, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie)
{
	struct listener_file *file = &listener->files[listener->count];

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (listener->count == LISTENER_FILES)
		return -ENOSPC;
	*file = (struct listener_file){.changed = changed, .cookie = cookie, .watch = -1};
	strcpy(file->path, path);
	check_descriptor(listener);
	listener->count++;
	/* In this order a change in between is seen twice rather than never. */
	watch_folder(listener, file);
	file->told = file->looked = look(path);
	return 0;
}

void listener_watch(const struct listener *listener, const char *path)
{
	if (bears_mark(listener))
		inotify_add_watch(listener->fd, path, IN_OPEN);
}

/* Takes one event. A rename counts under any name: it may be a symlink on the way to the file. */
static void take_event(struct listener *listener, const struct inotify_event *event)
{
	for (int i = 0; i < listener->count; i++) {
		struct listener_file *file = &listener->files[i];
		const char *slash = strrchr(file->path, '/');
		const char *name = slash ? slash + 1 : file->path;

		if (file->watch == event->wd &&
		    (event->mask & IN_MOVED_TO ||
		     (event->mask & IN_CLOSE_WRITE && strcmp(event->name, name) == 0)))
			file->complete = true;
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
static bool is_unknown(const struct listener_content *content)
{
	return content->status == -EMFILE || content->status == -ENFILE ||
	       content->status == -ENOMEM;
}

static bool has_changed(struct listener_file *file)
{
	struct listener_content now = look(file->path);
	bool settled = file->complete || same(&now, &file->looked);

	if (is_unknown(&now))
		return false;
	file->complete = false;
	file->looked = now;
	if (!settled || same(&now, &file->told))
		return false;
	file->told = now;
	return true;
}

int listener_check(struct listener *listener)
{
	int called = 0;

	check_descriptor(listener);
	take_events(listener);
	for (int i = 0; i < listener->count; i++) {
		struct listener_file *file = &listener->files[i];

		watch_folder(listener, file);
		if (!has_changed(file))
			continue;
		file->changed(file->cookie, file->path);
		called++;
	}
	return called;
}
