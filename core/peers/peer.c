/* SPDX-License-Identifier: MIT */
/*
 * The own peer record. Rules: runs inside the user's process, where the program may close any
 * descriptor and fork at any time. So no descriptor is kept: the lock is the open file's, which the
 * mapping holds open, and no child keeps the mapping (MADV_DONTFORK; where that is refused,
 * peer_forked()).
 */
#include "core/peers/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/descriptor.h"
#include "core/base/file_status.h"
#include "core/base/hash.h"
#include "core/base/shared_file.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

enum { UUID_MAX = 47, NAME_TRIES = 4, WORDS = PEER_SIZE / sizeof(uint64_t) };

static_assert(sizeof(struct peer_record) == PEER_SIZE, "layout changed: raise PEER_VERSION");
static_assert(offsetof(struct peer_record, check) == 2 * sizeof(uint64_t), "see CHECKED_FROM");
static_assert(offsetof(struct peer_record, slowdown_ppm) == 112,
              "layout changed: raise PEER_VERSION");
static_assert(offsetof(struct peer_record, limit) == 168, "layout changed: raise PEER_VERSION");
static_assert(offsetof(struct peer_record, gang) == 296, "layout changed: raise PEER_VERSION");

/* The first word that the check covers. */
enum { CHECKED_FROM = offsetof(struct peer_record, check) / sizeof(uint64_t) + 1 };

/* Returns whether UUID may be part of a file's name. */
static bool peer_is_uuid(const char *uuid)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	                              "0123456789-";
	size_t length = strspn(uuid, allowed);

	return length > 0 && length <= UUID_MAX && uuid[length] == '\0';
}

uint64_t peer_check(const struct peer_record *record)
{
	uint64_t word[WORDS], hash = HASH_NOTHING;

	memcpy(word, record, sizeof word);
	for (int i = CHECKED_FROM; i < (int)WORDS; i++)
		hash = hash_word(hash, word[i]);
	return hash;
}

static uint64_t peer_random_number(void)
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
		number = clock_of_day() ^ (uint64_t)getpid() << 48;
	return number ? number : 1;
}

/*
 * Takes the lock that says that the owner lives. Returns 0, 1: there are no such locks here, or -1:
 * it is taken.
 */
static int lock_file(int fd)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_OFD_SETLK, &all) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? -1 : 1;
}

static void write_words(struct peer_own *own)
{
	uint64_t word[WORDS];
	volatile uint64_t *to = (volatile uint64_t *)(void *)own->place.mapped;

	memcpy(word, &own->now, sizeof word);
	for (int i = 0; i < (int)WORDS; i++)
		to[i] = word[i];
}

/* Writes the peer record's contents, with the lock held or before other processes know it. */
static void peer_write_record(struct peer_own *own, uint64_t now)
{
	own->now.sequence++;
	own->now.beat_ns = now;
	own->now.token = own->place.token;
	own->now.is_locked = own->place.is_locked;
	own->now.check = peer_check(&own->now);
	if (own->place.mapped)
		write_words(own);
}

/*
 * Makes the file under the name that own->place.path holds. Returns a descriptor or a negative
 * errno.
 */
static int make_file(struct peer_own *own)
{
	struct stat found = {0};
	int fd = shared_file_new(AT_FDCWD, own->place.path), error, locked;

	if (fd < 0)
		return fd;
	fd = descriptor_aside(fd);
	if (fd < 0)
		return -errno;
	locked = lock_file(fd);
	error = locked < 0 ? -EAGAIN : shared_file_reserve(fd, 0, PEER_SIZE);
	if (own->group)
		(void)!fchown(fd, (uid_t)-1, own->group);
	/* readable by all, with any umask */
	if (!error && (fchmod(fd, 0644) != 0 || file_status_of(fd, &found) != 0))
		error = -errno;
	if (!error && found.st_nlink == 0)
		error = -EAGAIN; /* swept, before it was locked */
	if (error) {
		unlink(own->place.path);
		close(fd);
		return error;
	}
	own->place.is_locked = locked == 0;
	own->place.volume = found.st_dev;
	own->place.inode = found.st_ino;
	return fd;
}

/* Maps the file, which keeps it locked. Returns 0 or a negative errno. */
static int peer_map_file(struct peer_own *own, int fd)
{
	void *mapped = mmap(NULL, PEER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (mapped == MAP_FAILED)
		return -errno;
	own->place.is_inherited = madvise(mapped, PEER_SIZE, MADV_DONTFORK) != 0;
	own->place.mapped = mapped;
	return 0;
}

static int make_in(struct peer_own *own, const char *directory)
{
	int fd = -EINVAL, error;

	if (directory[0] != '/')
		return -EINVAL;
	for (int tries = 0; tries < NAME_TRIES && fd < 0; tries++) {
		int length;

		own->place.token = peer_random_number();
		length = snprintf(own->place.path, sizeof own->place.path, "%s/card-%s-%u-%016llx",
		                  directory, own->uuid, (unsigned)geteuid(),
		                  (unsigned long long)own->place.token);
		if (length >= (int)sizeof own->place.path)
			return -ENAMETOOLONG;
		fd = make_file(own);
		if (fd < 0 && fd != -EEXIST && fd != -EAGAIN)
			return fd;
	}
	if (fd < 0)
		return fd;
	error = peer_map_file(own, fd);
	close(fd);
	if (error)
		unlink(own->place.path);
	else
		peer_write_record(own, clock_now());
	return error;
}

/* Makes the file where it can be; with the lock held, or before other processes know it. */
static int peer_do_make(struct peer_own *own, char *message, size_t size)
{
	char state[DIRECTORY_MAX + 1];
	int error = make_in(own, own->node);

	if (!error)
		return 0;
	int directory = directory_open(true, message, size);

	if (directory < 0)
		return directory;
	close(directory);
	error = make_in(own, directory_path(state, sizeof state));
	if (error)
		return state_refuse(error, message, size, "%s: %s", own->place.path,
		                    strerror(-error));
	return 0;
}

int peer_make(struct peer_own *own, const char *node, const char *uuid, char *message, size_t size)
{
	if (!peer_is_uuid(uuid))
		return state_refuse(-EINVAL, message, size, "no device has the UUID \"%s\"", uuid);
	lock_init(&own->lock);
	own->node = node;
	snprintf(own->uuid, sizeof own->uuid, "%s", uuid);
	shared_file_write_head(&peer_format, &own->now);
	own->now.size = PEER_SIZE;
	own->now.device = peer_device(uuid);
	own->now.pid = getpid();
	own->now.working = PEER_UNKNOWN;
	return peer_do_make(own, message, size);
}

struct peer_record *peer_edit(struct peer_own *own)
{
	lock_acquire(&own->lock);
	return &own->now;
}

void peer_publish(struct peer_own *own, uint64_t now_ns)
{
	peer_write_record(own, now_ns);
	lock_release(&own->lock);
}

uint64_t peer_token(struct peer_own *own)
{
	uint64_t token;

	lock_acquire(&own->lock);
	token = own->place.token;
	lock_release(&own->lock);
	return token;
}

_Atomic uint32_t *peer_bell(struct peer_own *own)
{
	_Atomic uint32_t *bell;

	lock_acquire(&own->lock);
	bell = own->place.mapped ? &own->place.mapped->bell : NULL;
	lock_release(&own->lock);
	return bell;
}

/* Returns whether the peer record's file is where it was made, or that cannot be seen. */
static bool peer_is_there(const struct peer_own *own)
{
	struct stat found;

	if (file_status(own->place.path, &found) != 0)
		return errno != ENOENT;
	return found.st_dev == own->place.volume && found.st_ino == own->place.inode;
}

void peer_poll(struct peer_own *own, uint64_t now_ns)
{
	lock_acquire(&own->lock);
	if (own->place.mapped && !peer_is_there(own)) {
		struct peer_place before = own->place;

		if (peer_do_make(own, NULL, 0) == 0)
			munmap(before.mapped, PEER_SIZE);
		else
			own->place = before;
	}
	peer_write_record(own, now_ns);
	lock_release(&own->lock);
}

void peer_remove(struct peer_own *own, struct deadline *until)
{
	if (!deadline_lock(until, &own->lock))
		return;
	if (own->place.mapped) {
		unlink(own->place.path);
		munmap(own->place.mapped, PEER_SIZE);
	}
	own->place.mapped = NULL;
	lock_release(&own->lock);
}

void peer_forked(struct peer_own *own)
{
	if (own->place.mapped && own->place.is_inherited)
		munmap(own->place.mapped, PEER_SIZE);
	own->place.mapped = NULL;
	lock_init(&own->lock);
}
