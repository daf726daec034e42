/* SPDX-License-Identifier: MIT */
/*
 * Finding or making a device's turn file.
 *
 * Runs inside the user's process: a file that another user may have put there is never followed,
 * believed or waited for without bound; a descriptor is CLOEXEC and closed again. A file is
 * completed under its lock, so no process maps a half-made one; an unfinished file of a killed
 * maker has no magic yet and is completed by the next.
 */
#include "core/pages/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/shared_file.h"
#include "core/state/directory.h"
#include "core/state/layout.h"
#include "core/state/listing.h"

#define TURNS_MAGIC  "SPILTURN"
#define LOCK_WAIT_NS 1000000000ull

enum { LOCK_NAP_NS = 500000, UUID_MAX = 47 };

struct turns_file {
	struct turns turns;
	char boot_id[SEGMENT_BOOT_ID_MAX]; /* after a reboot no time in the file means anything */
};

static_assert(sizeof(struct turn_lane) == 64, "layout changed: raise TURNS_VERSION");
static_assert(offsetof(struct turns, lane) == 64, "layout changed: raise TURNS_VERSION");
static_assert(sizeof(struct turns_file) == 4224, "layout changed: raise TURNS_VERSION");

static const struct shared_format turns_format = {
    .magic = TURNS_MAGIC, .version = TURNS_VERSION, .size = sizeof(struct turns_file)};

/* Where the file may be. In order of preference, as turns.h says. */
enum place_kind { OF_ROOT, OF_USER_IN_NODE, OF_USER_IN_STATE, PLACES };

struct place {
	enum place_kind kind;
	char directory[PATH_MAX];
	char name[80];
};

/* The caller, and the place for its message. */
struct asker {
	char *message;
	size_t size;
};

static bool turns_is_uuid(const char *uuid)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	                              "0123456789-";
	size_t length = strspn(uuid, allowed);
	return length > 0 && length <= UUID_MAX && uuid[length] == '\0';
}

static void fill_place(struct place *place, enum place_kind kind, const char *uuid)
{
	place->kind = kind;
	if (kind == OF_USER_IN_STATE)
		directory_path(place->directory, sizeof place->directory);
	else
		directory_of_node(place->directory, sizeof place->directory);
	if (kind == OF_USER_IN_NODE)
		snprintf(place->name, sizeof place->name, "turns-%s-%u", uuid, (unsigned)geteuid());
	else
		snprintf(place->name, sizeof place->name, "turns-%s", uuid);
}

/*
 * Opens the place's directory. Returns a descriptor or a negative errno. Of the node's directory
 * nothing is asked: each file in it is judged.
 */
static int turns_open_directory(const struct place *place, bool make, const struct asker *asker)
{
	if (place->kind == OF_USER_IN_STATE)
		return directory_open(make, asker->message, asker->size);
	if (place->directory[0] != '/')
		return state_refuse(-EINVAL, asker->message, asker->size,
		                    "SPILLWAY_NODE_DIR=%s: expected an absolute path",
		                    place->directory);
	int fd = open(place->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	int error = -errno;
	return state_refuse(error, asker->message, asker->size, "%s: %s", place->directory,
	                    strerror(-error));
}

/*
 * Checks the file's owner. A process that may write to a file may cut it short, and a process that
 * then touches the mapping is killed (SIGBUS). So only trusted writers are allowed: root,
 * ourselves, and the group that root gave it to.
 */
static int turns_check_owner(const struct stat *found, const struct place *place,
                             const struct asker *asker)
{
	uid_t owner = place->kind == OF_ROOT ? 0 : geteuid();
	mode_t others = place->kind == OF_ROOT ? S_IWOTH : S_IWGRP | S_IWOTH;

	if (!S_ISREG(found->st_mode))
		return state_refuse(-EPROTO, asker->message, asker->size, "%s/%s: not a turn file",
		                    place->directory, place->name);
	if (found->st_uid != owner)
		return state_refuse(-EPERM, asker->message, asker->size,
		                    "%s/%s: belongs to user %u, expected user %u", place->directory,
		                    place->name, (unsigned)found->st_uid, (unsigned)owner);
	if (found->st_mode & others)
		return state_refuse(-EPERM, asker->message, asker->size,
		                    "%s/%s: mode %04o lets others cut it short, expected %s",
		                    place->directory, place->name, (unsigned)found->st_mode & 07777,
		                    place->kind == OF_ROOT ? "0660" : "0600");
	/* a link could lead to any file that we may write to */
	if (found->st_nlink != 1)
		return state_refuse(-EPERM, asker->message, asker->size,
		                    "%s/%s: has another name, too", place->directory, place->name);
	return 0;
}

/* Opens the turn file. Returns a descriptor or a negative errno. */
static int turns_open_file(int directory, const struct place *place, bool make,
                           const struct asker *asker)
{
	/*
	 * NONBLOCK: it might be a pipe. Made only where there is none: protected_regular refuses
	 * O_CREAT on another user's file
	 */
	const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int fd = openat(directory, place->name, flags);
	if (fd < 0 && errno == ENOENT && make && place->kind != OF_ROOT) {
		fd = shared_file_new(directory, place->name);
		if (fd >= 0)
			(void)fchmod(fd, 0600); /* the umask may have taken our own rights away */
		else if (fd == -EEXIST)
			fd = openat(directory, place->name, flags);
		else
			errno = -fd;
	}
	if (fd < 0) {
		int error = -errno;
		return state_refuse(error, asker->message, asker->size, "%s/%s: %s",
		                    place->directory, place->name, strerror(-error));
	}
	struct stat found;
	int error =
	    file_status_of(fd, &found) == 0 ? turns_check_owner(&found, place, asker) : -errno;
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

static int turns_lock(int fd)
{
	struct deadline until = DEADLINE_IN(LOCK_WAIT_NS);

	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (!deadline_nap(&until, LOCK_NAP_NS))
			return -EBUSY;
	}
	return 0;
}

static int write_at(int fd, const void *bytes, size_t size, size_t at)
{
	ssize_t length = pwrite(fd, bytes, size, (off_t)at);
	if (length == (ssize_t)size)
		return 0;
	return length < 0 ? -errno : -EIO;
}

/* Writes everything except the fields that check() looks at, and those last. */
static int turns_initialise(int fd)
{
	static const char none[sizeof(struct turns)];
	const size_t past = offsetof(struct turns, holder);
	struct turns_file new = {.turns.size = sizeof new};
	shared_file_write_head(&turns_format, &new);
	segment_read_boot_id(new.boot_id);
	int error = write_at(fd, none, sizeof none - past, past);
	if (!error)
		error = write_at(fd, new.boot_id, sizeof new.boot_id,
		                 offsetof(struct turns_file, boot_id));
	if (!error)
		error = write_at(fd, &new, past, 0);
	return error;
}

/* Makes the file whole, or finds that it is; under the lock. Returns 0 or a negative errno. */
static int turns_complete(int fd, const struct place *place, const struct asker *asker)
{
	static const char unmade[8];
	struct turns_file file = {0};
	struct stat found;
	ssize_t length = pread(fd, &file, sizeof file, 0);

	if (length < 0 || file_status_of(fd, &found) != 0)
		return -errno;
	if (memcmp(file.turns.magic, unmade, sizeof unmade) == 0 &&
	    found.st_size <= (off_t)sizeof file) {
		int error = shared_file_reserve(fd, 0, sizeof file);
		return error ? error : turns_initialise(fd);
	}
	enum shared_fit fit = shared_file_fits(&turns_format, &file, file.turns.size);
	if (fit == SHARED_OTHER_KIND)
		return state_refuse(-EPROTO, asker->message, asker->size, "%s/%s: not a turn file",
		                    place->directory, place->name);
	if (fit == SHARED_OTHER_VERSION)
		return state_refuse(-EPROTO, asker->message, asker->size,
		                    "%s/%s: turn file of version %u, expected version %d, and in "
		                    "use; let the jobs end, then: spillway doctor --clean",
		                    place->directory, place->name, file.turns.version,
		                    TURNS_VERSION);
	if (found.st_size != (off_t)sizeof file || fit == SHARED_OTHER_SIZE)
		return state_refuse(-EPROTO, asker->message, asker->size,
		                    "%s/%s: turn file of %lld bytes, expected %zu: damaged",
		                    place->directory, place->name, (long long)found.st_size,
		                    sizeof file);

	char boot_id[SEGMENT_BOOT_ID_MAX];
	segment_read_boot_id(boot_id);
	int error = shared_file_refill(fd, 0, sizeof file);
	if (!error && boot_id[0] && strncmp(boot_id, file.boot_id, sizeof boot_id) != 0)
		error = turns_initialise(fd);
	return error;
}

static struct turns *turns_map_file(int fd, const struct place *place, const struct asker *asker)
{
	void *address = MAP_FAILED;
	int error = turns_lock(fd);

	if (!error) {
		*asker->message = '\0';
		error = turns_complete(fd, place, asker);
		/* a child forked meanwhile has the descriptor, too */
		(void)flock(fd, LOCK_UN);
	}
	if (!error) {
		address = mmap(NULL, sizeof(struct turns_file), PROT_READ | PROT_WRITE, MAP_SHARED,
		               fd, 0);
		error = address == MAP_FAILED ? -errno : 0;
	}
	if (error && !*asker->message)
		state_refuse(error, asker->message, asker->size, "%s/%s: %s", place->directory,
		             place->name, strerror(-error));
	return error ? NULL : address;
}

/*
 * Returns the first place to look at. A directory of the node that root did not choose for turns is
 * open to all users, and each could cut short a file that is mapped there.
 */
static int first_place(void)
{
	char path[DIRECTORY_MAX + 1];

	directory_of_node(path, sizeof path);
	return strcmp(directory_node, DIRECTORY_NODE) != 0 && strcmp(path, directory_node) == 0
	           ? OF_USER_IN_STATE
	           : OF_ROOT;
}

/* Returns whether a turn file is of another version, and no process has it; under its lock. */
static bool turns_are_left(int fd, const struct place *place)
{
	const struct asker nobody_asks = {NULL, 0};
	struct turns turns;
	struct stat found;

	return file_status_of(fd, &found) == 0 &&
	       turns_check_owner(&found, place, &nobody_asks) == 0 &&
	       pread(fd, &turns, offsetof(struct turns, holder), 0) ==
	           (ssize_t)offsetof(struct turns, holder) &&
	       shared_file_fits(&turns_format, &turns, turns.size) == SHARED_OTHER_VERSION &&
	       segment_file_life(fd) == OTHER_OVER;
}

/*
 * Removes the place's file if it is of another version and no process has it. Root's is emptied,
 * because its group and mode are root's choice. Returns whether it is gone or empty.
 */
static bool turns_remove_left(int directory, const struct place *place)
{
	const int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int fd = openat(directory, place->name, O_RDONLY | flags), emptied;
	bool is_done = fd >= 0 && turns_lock(fd) == 0 && turns_are_left(fd, place);

	if (is_done && place->kind == OF_ROOT) {
		emptied = openat(directory, place->name, O_WRONLY | O_TRUNC | flags);
		is_done = emptied >= 0 && close(emptied) == 0;
	} else if (is_done) {
		is_done = unlinkat(directory, place->name, 0) == 0;
	}
	if (fd >= 0)
		close(fd);
	return is_done;
}

/* Maps the file of one place. Returns NULL and the reason where that cannot be. */
static struct turns *turns_open_at(const struct place *place, const struct asker *asker)
{
	struct turns *turns = NULL;
	int directory = turns_open_directory(place, true, asker);

	for (int tries = 0; directory >= 0 && tries < 2 && !turns; tries++) {
		int fd = turns_open_file(directory, place, true, asker);

		if (fd < 0)
			break;
		turns = turns_map_file(fd, place, asker);
		close(fd);
		if (!turns && !turns_remove_left(directory, place))
			break;
	}
	if (directory >= 0)
		close(directory);
	return turns;
}

struct turns *turns_open(const char *uuid, char *message, size_t size)
{
	const struct asker asker = {message, size};
	struct turns *turns = NULL;
	struct place place;

	*message = '\0';
	if (!turns_is_uuid(uuid)) {
		state_refuse(-EINVAL, message, size, "no device has the UUID \"%s\"", uuid);
		return NULL;
	}
	for (int kind = first_place(); kind < PLACES && !turns; kind++) {
		fill_place(&place, kind, uuid);
		turns = turns_open_at(&place, &asker);
	}
	return turns;
}

struct turns_cleaning {
	bool is_state_directory;
	int removed;
};

static bool turns_clean_one(void *cookie, int directory, const char *name)
{
	struct turns_cleaning *cleaning = cookie;
	struct place place = {.kind = OF_USER_IN_STATE};
	const char *last = strrchr(name, '-');
	char own[16];

	if (strncmp(name, "turns-", 6) != 0 || strlen(name) >= sizeof place.name)
		return true;
	snprintf(own, sizeof own, "-%u", (unsigned)geteuid());
	if (!cleaning->is_state_directory)
		place.kind = strcmp(last, own) == 0 ? OF_USER_IN_NODE : OF_ROOT;
	strcpy(place.name, name);
	if (place.kind != OF_ROOT || geteuid() == 0)
		cleaning->removed += turns_remove_left(directory, &place);
	return true;
}

int turns_clean(void)
{
	struct turns_cleaning cleaning = {0};
	char path[PATH_MAX];

	(void)listing_read_path(directory_of_node(path, sizeof path), turns_clean_one, &cleaning);
	cleaning.is_state_directory = true;
	(void)listing_read_path(directory_path(path, sizeof path), turns_clean_one, &cleaning);
	return cleaning.removed;
}

bool turns_of_root(const char *uuid, struct stat *file)
{
	struct place place;
	char path[2 * PATH_MAX];

	if (!turns_is_uuid(uuid) || first_place() != OF_ROOT)
		return false;
	fill_place(&place, OF_ROOT, uuid);
	snprintf(path, sizeof path, "%s/%s", place.directory, place.name);
	return place.directory[0] == '/' && file_status_itself(path, file) == 0;
}

bool turns_may_use(const struct stat *file, uid_t user, const gid_t *group, int count)
{
	static const struct place root_s = {.kind = OF_ROOT};
	const struct asker nobody_asks = {NULL, 0};
	const mode_t both = S_IRGRP | S_IWGRP;

	if (turns_check_owner(file, &root_s, &nobody_asks) != 0)
		return false;
	if (user == 0)
		return true;
	for (int i = 0; i < count; i++)
		if (group[i] == file->st_gid)
			return (file->st_mode & both) == both;
	return false;
}

/*
 * Looks whether this place would serve. Returns 0: it would; -ENOENT: it would not, and nothing is
 * wrong; or another negative errno.
 */
static int turns_find_at(const struct place *place, const struct asker *asker)
{
	int directory = turns_open_directory(place, false, asker);
	if (directory < 0)
		return place->kind == OF_USER_IN_STATE && directory == -ENOENT ? 0 : directory;
	int fd = turns_open_file(directory, place, false, asker), error = fd < 0 ? fd : 0;
	if (fd == -ENOENT && place->kind != OF_ROOT && faccessat(directory, ".", W_OK, 0) == 0)
		error = 0; /* it would be made */
	if (fd >= 0)
		close(fd);
	close(directory);
	return error;
}

bool turns_find(const char *uuid, char *path, size_t path_size, bool *by_root, char *message,
                size_t size)
{
	struct place place;
	char why[512];
	const struct asker asker = {why, sizeof why};

	*message = '\0';
	if (!turns_is_uuid(uuid))
		return false;
	for (int kind = first_place(); kind < PLACES; kind++) {
		fill_place(&place, kind, uuid);
		int error = turns_find_at(&place, &asker);
		if (!error) {
			*by_root = kind == OF_ROOT;
			snprintf(path, path_size, "%s/%s", place.directory, place.name);
			return true;
		}
		if (error != -ENOENT && !*message)
			snprintf(message, size, "%s", why);
	}
	return false;
}
