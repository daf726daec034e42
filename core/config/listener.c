/* SPDX-License-Identifier: MIT */
/*
 * The file listener: times and sizes say when to look, a hash of each file whether it changed.
 *
 * It runs inside the user's process, on the owner's thread: no thread, no signal, nothing global,
 * and no descriptor that stays open.
 */
#include "core/config/listener.h"

#include "core/base/file_status.h"
#include "core/base/hash.h"
#include "core/config/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool listener_text_is_whole(const char *text, size_t length)
{
	const size_t tail = sizeof LISTENER_WHOLE - 1;

	return length >= tail && memcmp(text + length - tail, LISTENER_WHOLE, tail) == 0;
}

static struct listener_content listener_look(const char *path)
{
	struct listener_content content = {0};
	char *text;
	size_t length;

	content.status = config_file_load(path, true, &text, &length);
	if (content.status == 0) {
		content.hash = hash_bytes(HASH_NOTHING, text, length);
		content.is_whole = listener_text_is_whole(text, length);
		free(text);
	}
	return content;
}

static bool listener_same(const struct listener_content *a, const struct listener_content *b)
{
	return a->status == b->status && a->hash == b->hash;
}

/* Follows links: Kubernetes swaps a link above the file. */
static uint64_t listener_stamp(const char *path)
{
	struct stat found;
	uint64_t stamp = HASH_NOTHING;

	if (file_status(path, &found) != 0)
		return hash_word(stamp, (uint64_t)errno);
	stamp = hash_word(stamp, found.st_ino);
	stamp = hash_word(stamp, (uint64_t)found.st_dev);
	stamp = hash_word(stamp, (uint64_t)found.st_size);
	stamp = hash_word(stamp, (uint64_t)found.st_mtim.tv_sec);
	stamp = hash_word(stamp, (uint64_t)found.st_mtim.tv_nsec);
	stamp = hash_word(stamp, (uint64_t)found.st_ctim.tv_sec);
	return hash_word(stamp, (uint64_t)found.st_ctim.tv_nsec);
}

int listener_add(struct listener *listener, const char *path,
                 void (*changed)(void *cookie, const char *path), void *cookie)
{
	struct listener_file *file = &listener->files[listener->count];

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (listener->count == LISTENER_FILES)
		return -ENOSPC;
	*file = (struct listener_file){.changed = changed, .cookie = cookie};
	strcpy(file->path, path);
	listener->count++;
	/* In this order a change in between is seen twice rather than never. */
	file->glanced = listener_stamp(path);
	file->told = file->looked = listener_look(path);
	return 0;
}

/*
 * Returns whether nothing about the file is known, because the process is out of descriptors or
 * memory.
 */
static bool listener_is_unknown(const struct listener_content *content)
{
	return content->status == -EMFILE || content->status == -ENFILE ||
	       content->status == -ENOMEM;
}

static bool listener_has_changed(struct listener_file *file)
{
	uint64_t stamp = listener_stamp(file->path);
	struct listener_content now;
	bool settled;

	if (stamp == file->glanced && listener_same(&file->looked, &file->told) &&
	    ++file->unread < LISTENER_READ)
		return false;
	now = listener_look(file->path);
	settled = now.is_whole || listener_same(&now, &file->looked);
	file->glanced = stamp;
	file->unread = listener_is_unknown(&now) ? LISTENER_READ : 0;
	if (file->unread)
		return false;
	file->looked = now;
	if (!settled || listener_same(&now, &file->told))
		return false;
	file->told = now;
	return true;
}

bool listener_is_unsettled(const struct listener *listener)
{
	for (int i = 0; i < listener->count; i++)
		if (!listener_same(&listener->files[i].looked, &listener->files[i].told))
			return true;
	return false;
}

int listener_check(struct listener *listener)
{
	int called = 0;

	for (int i = 0; i < listener->count; i++) {
		struct listener_file *file = &listener->files[i];

		if (!listener_has_changed(file))
			continue;
		file->changed(file->cookie, file->path);
		called++;
	}
	return called;
}
