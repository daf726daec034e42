/* SPDX-License-Identifier: MIT */
/* Tries whether a job can have its state. */
#include "tools/doctor/room.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/state/directory.h"
#include "tools/view/tool.h"

enum { ROOM = 2 << 20 }; /* bytes; the files of a job are a little less */

/* Tries to make a file of the size. Returns 0 or an errno. */
static int try_file(const char *directory)
{
	char *file = text("%s/.room.XXXXXX", directory);
	int descriptor = mkostemp(file, O_CLOEXEC);
	int error = descriptor < 0 ? errno : posix_fallocate(descriptor, 0, ROOM);

	if (descriptor >= 0) {
		close(descriptor);
		unlink(file);
	}
	free(file);
	return error;
}

/* Returns whether the file system is full of files, with bytes to spare. */
static bool has_no_inodes(const char *path)
{
	struct statvfs found;

	return statvfs(path, &found) == 0 && found.f_files && !found.f_favail;
}

bool room_for_job(char *message, size_t size)
{
	int error, directory = directory_open(1, message, size);
	char path[PATH_MAX];
	struct rlimit limit;

	if (directory < 0)
		return false;
	close(directory);
	directory_path(path, sizeof path);
	/* A longer file would be SIGXFSZ, which ends us, and the program later. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < ROOM) {
		signal(SIGXFSZ, SIG_IGN); /* output may go to a longer file, too */
		snprintf(message, size,
		         "%s: a job's state takes 2 MiB, and files are limited to %llu bytes "
		         "(ulimit -f)",
		         path, (unsigned long long)limit.rlim_cur);
		return false;
	}
	error = try_file(path);
	if (error)
		snprintf(
		    message, size, "%s: a job's state takes 2 MiB: %s%s", path, strerror(error),
		    error == ENOSPC && has_no_inodes(path) ? ": no inodes are left (df -i)" : "");
	return error == 0;
}
