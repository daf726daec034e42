/* SPDX-License-Identifier: MIT */
/* Targets of output. Rules: runs inside the user's process. */
#include "core/base/target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/descriptor.h"
#include "core/base/file_status.h"

enum { LINKS_MAX = 40 };

/* Splits at the last slash. Returns the directory's descriptor or a negative errno. */
static int open_folder(const char *path, const char **name)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int length = slash ? (int)(slash - path) : 0;
	int fd;

	*name = slash ? slash + 1 : path;
	if (!slash)
		snprintf(folder, sizeof folder, ".");
	else
		snprintf(folder, sizeof folder, "%.*s/", length, path);
	fd = descriptor_above_stdio(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
	return fd < 0 ? -errno : fd;
}

/* Puts where the link leads in place of its path. Returns 0 or a negative errno. */
static int lead_on(int folder, const char *name, char path[PATH_MAX])
{
	char leads_to[PATH_MAX];
	ssize_t length = readlinkat(folder, name, leads_to, sizeof leads_to - 1);
	size_t kept;

	if (length < 0)
		return -errno;
	leads_to[length] = '\0';
	kept = leads_to[0] == '/' ? 0 : (size_t)(name - path);
	if (kept + (size_t)length >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path + kept, leads_to, (size_t)length + 1);
	return 0;
}

static bool is_own_descriptor(int folder, const char *name)
{
	struct stat one, own;

	return *name && name[strspn(name, "0123456789")] == '\0' && strlen(name) < 10 &&
	       file_status_of(folder, &one) == 0 && file_status("/proc/self/fd", &own) == 0 &&
	       one.st_dev == own.st_dev && one.st_ino == own.st_ino;
}

/* Returns whether a link here is the kernel's, to a descriptor: its text is no path. */
static bool is_of_proc(int folder)
{
	struct statfs system;

	return fstatfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

static bool is_strangers(int folder, const struct stat *link)
{
	struct stat around;

	if (link->st_uid == geteuid() || file_status_of(folder, &around) != 0)
		return false;
	return (around.st_mode & S_ISVTX) && (around.st_mode & S_IWOTH) &&
	       around.st_uid != link->st_uid;
}

/*
 * Looks at the last name of the path. Returns 1 for a link that has been followed, 0 if found, or a
 * negative errno.
 */
static int target_look(int folder, const char *name, struct target *target)
{
	struct stat found;

	if (!*name) /* a path that ends in a slash */
		return *target->path ? -EISDIR : -ENOENT;
	if (file_status_at(folder, name, &found) != 0) {
		target->kind = TARGET_NEW;
		return errno == ENOENT ? 0 : -errno;
	}
	target->owner = found.st_uid;
	target->mode = found.st_mode & 07777;
	if (S_ISDIR(found.st_mode))
		return -EISDIR;
	if (S_ISLNK(found.st_mode) && is_of_proc(folder)) {
		target->kind = is_own_descriptor(folder, name) ? TARGET_DESCRIPTOR : TARGET_STREAM;
		target->is_kernels_link = target->kind == TARGET_STREAM;
		target->descriptor = atoi(name);
		return 0;
	}
	if (S_ISLNK(found.st_mode) && is_strangers(folder, &found)) {
		target->is_strangers_link = true;
		return -EACCES;
	}
	if (S_ISLNK(found.st_mode)) {
		int error = lead_on(folder, name, target->path);

		return error ? error : 1;
	}
	target->kind = S_ISREG(found.st_mode) ? TARGET_FILE : TARGET_STREAM;
	return 0;
}

int target_find(const char *path, struct target *target)
{
	size_t length = strlen(path);

	memset(target, 0, sizeof *target);
	if (length >= sizeof target->path)
		return -ENAMETOOLONG;
	memcpy(target->path, path, length + 1);
	for (int links = 0; links < LINKS_MAX; links++) {
		int saved_errno = errno, folder, found;
		const char *name;

		folder = open_folder(target->path, &name);
		if (folder < 0)
			return folder;
		found = target_look(folder, name, target);
		close(folder);
		if (found <= 0) {
			errno = saved_errno;
			return found;
		}
	}
	return -ELOOP;
}

/* Connects to a socket, which cannot be opened; the listener takes packets or a stream. */
static int connect_to(const char *path)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int error = ENAMETOOLONG;

	if (strlen(path) >= sizeof address.sun_path)
		return -error;
	strcpy(address.sun_path, path);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		int fd = descriptor_above_stdio(
		    socket(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

		if (fd < 0)
			return -errno;
		if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
			return fd;
		error = errno;
		close(fd);
		if (error != EPROTOTYPE)
			break;
	}
	return -error;
}

int target_open(const struct target *target)
{
	struct stat found;
	int fd;

	if (file_status(target->path, &found) == 0 && S_ISSOCK(found.st_mode))
		return connect_to(target->path);
	fd = descriptor_above_stdio(
	    open(target->path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
	                           (target->is_kernels_link ? 0 : O_NOFOLLOW)));
	if (fd < 0)
		return -errno;
	if (target->is_kernels_link || (file_status_of(fd, &found) == 0 && !S_ISREG(found.st_mode)))
		return fd;
	close(fd);
	return -EAGAIN;
}
