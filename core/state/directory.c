/* SPDX-License-Identifier: MIT */
/*
 * The state directory: its name, its making, its checks.
 *
 * Runs inside the user's process: no umask, no environment in set-uid processes; no link that
 * another user may have put there is followed.
 *
 * The places are fixed, so that all processes of a user agree on one: the environment differs
 * between a login and a batch job. A place that another user has taken is skipped. A place in use
 * stays, even when a place before it becomes free: otherwise another user who makes and removes a
 * directory could divide a job's processes among two.
 */
#include "core/state/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/place.h"
#include "core/state/layout.h"

int state_refuse(int error, char *message, size_t size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (message)
		vsnprintf(message, size, format, arguments);
	va_end(arguments);
	return error;
}

const char *directory_root = "", *directory_node = DIRECTORY_NODE;

/*
 * Where the directory may be, in this order. All processes of a user see the same places, with any
 * environment, so XDG_RUNTIME_DIR, which differs between a login and a batch job, is not asked. No
 * other user may write to /run/user, but it goes with the user's last session, so it is not the
 * first.
 */
static const char *const places[] = {"/dev/shm/spillway-%u", "/run/user/%u/spillway",
                                     "/tmp/spillway-%u"};
enum { PLACES = sizeof places / sizeof *places };

/*
 * Returns how many of them there are. Where the machine's configuration is enforced there is one: a
 * user that spoils it would have another quota in the next.
 */
static int place_count(void)
{
	return place_is_bound() ? 1 : PLACES;
}

static char kept[PATH_MAX];
static _Atomic bool is_kept;

/* Returns the path given in place of the default, or NULL. */
static const char *given_path(void)
{
	if (is_kept)
		return *kept ? kept : NULL;
	return place_variable("SPILLWAY_STATE_DIR");
}

static const char *place_path(int place, char *path, size_t size)
{
	int length = snprintf(path, size, "%s", directory_root);

	if (length >= 0 && (size_t)length < size)
		snprintf(path + length, size - (size_t)length, places[place], (unsigned)geteuid());
	return path;
}

/*
 * Judges the file at path. Returns 0 for a directory of the user's own that no other user may write
 * to; else -EPERM, -ENOTDIR or the system's reason, and message.
 */
static int directory_judge(int result, const struct stat *found, const char *path, char *message,
                           size_t size)
{
	if (result != 0) {
		int error = -errno;
		return state_refuse(error, message, size, "%s: %s", path, strerror(-error));
	}
	if (!S_ISDIR(found->st_mode))
		return state_refuse(-ENOTDIR, message, size,
		                    "%s: expected a directory, not a link or file", path);
	if (found->st_uid != geteuid())
		return state_refuse(-EPERM, message, size,
		                    "%s: belongs to user %u, expected a directory of user %u", path,
		                    (unsigned)found->st_uid, (unsigned)geteuid());
	if (found->st_mode & (S_IWGRP | S_IWOTH))
		return state_refuse(-EPERM, message, size,
		                    "%s: mode %04o lets others write, expected 0700", path,
		                    (unsigned)found->st_mode & 07777);
	return 0;
}

static int check_path(const char *path, char *message, size_t size)
{
	struct stat found;

	return directory_judge(file_status_itself(path, &found), &found, path, message, size);
}

/*
 * Returns the place that is the directory. It is the first that is there and the user's own
 * already, for as long as it is, even where a place before it has become free: else the user's
 * processes would no longer agree. Without one it is the first that no other user has.
 */
static int directory_choose(void)
{
	char path[PATH_MAX];
	int free_place = -1;

	for (int i = 0; i < place_count(); i++) {
		int error = check_path(place_path(i, path, sizeof path), NULL, 0);

		if (error == 0)
			return i;
		if (error == -ENOENT && free_place < 0)
			free_place = i;
	}
	return free_place < 0 ? 0 : free_place;
}

const char *directory_path(char *path, size_t size)
{
	const char *given = given_path();

	if (!given)
		return place_path(directory_choose(), path, size);
	snprintf(path, size, "%s", given);
	return path;
}

/*
 * Opens the place that is the directory, and tells its path. Made if create is non-zero: one that
 * another user has taken, or that cannot be made here, is skipped. The message is that of the
 * first.
 */
static int open_place(int create, char *path, size_t path_size, char *message, size_t size)
{
	char why[PATH_MAX + 128];
	int error = 0;

	for (int place = directory_choose(); place < place_count(); place++) {
		int fd = directory_open_path(place_path(place, path, path_size), create, why,
		                             sizeof why);

		if (fd >= 0)
			return fd;
		if (!error)
			error = state_refuse(fd, message, size, "%s", why);
		/* Ours: another process need not lack this process's rights. */
		if (!create || check_path(path, NULL, 0) == 0)
			break;
	}
	directory_path(path, path_size);
	return error;
}

int directory_open(int create, char *message, size_t size)
{
	const char *given = given_path();
	char path[PATH_MAX];

	return given ? directory_open_path(given, create, message, size)
	             : open_place(create, path, sizeof path, message, size);
}

void directory_keep(void)
{
	const char *given = given_path();
	int fd;

	if (is_kept)
		return;
	if (given) {
		snprintf(kept, sizeof kept, "%s", given);
	} else {
		fd = open_place(1, kept, sizeof kept, NULL, 0);
		if (fd >= 0)
			close(fd);
	}
	is_kept = true;
}

void directory_use(const char *path)
{
	if (path)
		snprintf(kept, sizeof kept, "%s", path);
	is_kept = path != NULL;
}

bool directory_passed_over(char *message, size_t size)
{
	char path[PATH_MAX], first[PATH_MAX], why[PATH_MAX + 128];
	int error;

	place_path(0, first, sizeof first);
	directory_path(path, sizeof path);
	if (place_variable("SPILLWAY_STATE_DIR") || strcmp(path, first) == 0)
		return false;
	error = check_path(first, why, sizeof why);
	if (error == 0 || error == -ENOENT)
		return false;
	snprintf(message, size, "%s; %s is used instead", why, path);
	return true;
}

const char *directory_of_node(char *path, size_t size)
{
	const char *given = place_variable("SPILLWAY_NODE_DIR");
	snprintf(path, size, "%s", given ? given : directory_node);
	return path;
}

int directory_open_path(const char *path, int create, char *message, size_t size)
{
	struct stat found;

	/* a relative name would be another directory in each process */
	if (path[0] != '/')
		return state_refuse(-EINVAL, message, size,
		                    "SPILLWAY_STATE_DIR=%.200s: expected an absolute path", path);
	if (strlen(path) > DIRECTORY_MAX)
		return state_refuse(-ENAMETOOLONG, message, size,
		                    "SPILLWAY_STATE_DIR=%.200s...: expected at most %d characters",
		                    path, DIRECTORY_MAX);

	/* by number: a library that puts other places in the place of some (fakechroot) is not
	 * asked, or there would be two */
	bool made = create && syscall(SYS_mkdirat, AT_FDCWD, path, 0700) == 0;
	/* an existing one serves, with any answer of the kernel to making it */
	int making = create && !made && errno != EEXIST ? -errno : 0;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
	                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		int error = -errno;
		if (error == -ENOTDIR || error == -ELOOP)
			return state_refuse(error, message, size,
			                    "%s: expected a directory, not a link or file", path);
		if (making)
			return state_refuse(making, message, size, "%s: cannot be made: %s", path,
			                    strerror(-making));
		return state_refuse(error, message, size, "%s: %s", path, strerror(-error));
	}
	/* the user's umask may have taken even our own rights away */
	if (made)
		(void)fchmod(fd, 0700);

	int error = directory_judge(file_status_of(fd, &found), &found, path, message, size);
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

int directory_check_name(const char *job)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	                              "0123456789._-";
	if (!job || job[0] == '.')
		return -EINVAL;
	size_t length = strspn(job, allowed);
	return length >= 1 && length <= 63 && job[length] == '\0' ? 0 : -EINVAL;
}

static int file_path(const char *job, const char *ending, char *path, size_t size)
{
	char directory[PATH_MAX];
	if (directory_check_name(job) != 0)
		return -EINVAL;
	int length = snprintf(path, size, "%s/%s%s", directory_path(directory, sizeof directory),
	                      job, ending);
	return length >= 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

int directory_segment_path(const char *job, char *path, size_t size)
{
	return file_path(job, ".segment", path, size);
}

int directory_pause_path(const char *job, char *path, size_t size)
{
	return file_path(job, ".pause.ini", path, size);
}

int directory_refused_path(const char *job, char *path, size_t size)
{
	return file_path(job, ".refused", path, size);
}

int directory_override_path(const char *job, char *path, size_t size)
{
	return file_path(job, ".override.ini", path, size);
}

/* Which boot of the machine a file is of, and texts in files. Runs inside the user's process:
 * descriptors are CLOEXEC and closed again. */

void segment_copy_text(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);
	memcpy(to, from, length);
	memset(to + length, 0, size - length);
}

size_t segment_read_line(const char *path, char *buf, size_t size)
{
	ssize_t length = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, buf, size);
		close(fd);
	}
	return length > 0 ? (size_t)length : 0;
}

void segment_read_boot_id(char id[SEGMENT_BOOT_ID_MAX])
{
	memset(id, 0, SEGMENT_BOOT_ID_MAX);
	segment_read_line("/proc/sys/kernel/random/boot_id", id, SEGMENT_BOOT_ID_MAX - 1);
	id[strcspn(id, "\n")] = '\0';
}

bool segment_is_of_this_boot(const char boot_id[SEGMENT_BOOT_ID_MAX])
{
	char now[SEGMENT_BOOT_ID_MAX];
	segment_read_boot_id(now);
	return !now[0] || !boot_id[0] || strcmp(now, boot_id) == 0;
}
