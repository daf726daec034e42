/*
 * The state directory: its name, its making, its checks.
 *
 * Runs inside the user's process: no umask, no environment in set-uid processes, nothing followed
 * that someone else may have put there.
 */
#include "core/state/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/state/refuse.h"

static char kept[PATH_MAX];
static _Atomic bool is_kept;

void directory_keep(void)
{
	if (is_kept)
		return;
	directory_path(kept, sizeof kept);
	is_kept = true;
}

const char *directory_path(char *path, size_t size)
{
	const char *given = is_kept ? kept : secure_getenv("SPILLWAY_STATE_DIR");
	if (given && *given)
		snprintf(path, size, "%s", given);
	else
		snprintf(path, size, "/dev/shm/spillway-%u", (unsigned)geteuid());
	return path;
}

const char *directory_of_node(char *path, size_t size)
{
	const char *given = secure_getenv("SPILLWAY_NODE_DIR");
	snprintf(path, size, "%s", given && *given ? given : "/run/spillway");
	return path;
}

static int check(int fd, const char *path, char *message, size_t size)
{
	struct stat found;
	if (file_status_of(fd, &found) != 0) {
		int error = -errno;
		return state_refuse(error, message, size, "%s: %s", path, strerror(-error));
	}
	if (found.st_uid != geteuid())
		return state_refuse(-EPERM, message, size,
		                    "%s: belongs to user %u, expected a directory of user %u", path,
		                    (unsigned)found.st_uid, (unsigned)geteuid());
	if (found.st_mode & (S_IWGRP | S_IWOTH))
		return state_refuse(-EPERM, message, size,
		                    "%s: mode %04o lets others write, expected 0700", path,
		                    (unsigned)found.st_mode & 07777);
	return 0;
}

int directory_open(int create, char *message, size_t size)
{
	char path[PATH_MAX];
	directory_path(path, sizeof path);
	return directory_open_path(path, create, message, size);
}

int directory_open_path(const char *path, int create, char *message, size_t size)
{
	/* a relative name would be another directory in each process */
	if (path[0] != '/')
		return state_refuse(-EINVAL, message, size,
		                    "SPILLWAY_STATE_DIR=%.200s: expected an absolute path", path);
	if (strlen(path) > DIRECTORY_MAX)
		return state_refuse(-ENAMETOOLONG, message, size,
		                    "SPILLWAY_STATE_DIR=%.200s...: expected at most %d characters",
		                    path, DIRECTORY_MAX);

	bool made = create && mkdir(path, 0700) == 0;
	if (create && !made && errno != EEXIST) {
		int error = -errno;
		return state_refuse(error, message, size, "%s: cannot be made: %s", path,
		                    strerror(-error));
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		int error = -errno;
		if (error == -ENOTDIR || error == -ELOOP)
			return state_refuse(error, message, size,
			                    "%s: expected a directory, not a link or file", path);
		return state_refuse(error, message, size, "%s: %s", path, strerror(-error));
	}
	/* the user's umask may have taken even our own rights away */
	if (made)
		(void)fchmod(fd, 0700);

	int error = check(fd, path, message, size);
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

int directory_override_path(const char *job, char *path, size_t size)
{
	return file_path(job, ".override.ini", path, size);
}
