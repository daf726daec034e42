/* SPDX-License-Identifier: MIT */
/* Bind mounts, read-only, in a namespace that dies with the task. */
#include "tools/slurm/mounts.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

static bool mounts_fail(const char *what, const char *path, char *message, size_t size)
{
	snprintf(message, size, "%s: %s: %s", path, what, strerror(errno));
	return false;
}

static bool bind_over(const char *from, const char *to, char *message, size_t size)
{
	const unsigned long read_only = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV;

	if (mount(from, to, NULL, MS_BIND, NULL) != 0)
		return mounts_fail("cannot be mounted over", to, message, size);
	if (mount(NULL, to, NULL, read_only, NULL) != 0)
		return mounts_fail("cannot be made read-only", to, message, size);
	return true;
}

bool mounts_make(const struct job_files *files, char *message, size_t size)
{
	if (unshare(CLONE_NEWNS) != 0)
		return mounts_fail("no mount namespace", "/", message, size);
	/* Slaves: later mounts of the machine come in, ours do not go out. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
		return mounts_fail("cannot be made a slave", "/", message, size);
	return bind_over(files->ini, MACHINE_INI, message, size) &&
	       bind_over(files->preload, MACHINE_PRELOAD, message, size);
}
