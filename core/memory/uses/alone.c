/* SPDX-License-Identifier: MIT */
/* One at a time. Rules: runs inside the user's process, within its calls; errno is kept. */
#include "core/memory/uses/alone.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/own_file.h"
#include "core/budget/device.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

/* No longer than this somebody who was stopped in his call holds the others up. */
#define PATIENCE_NS 1000000000ull

enum { SIZE = 4096 }; /* of the mapping; nothing in it is ever touched */

static int open_file(const struct device *device)
{
	char path[DIRECTORY_MAX + sizeof device->id.uuid + 8];
	int length =
	    snprintf(path, sizeof path, "%s/alone-%s", device->segment->directory, device->id.uuid);

	return length < (int)sizeof path ? own_file_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600)
	                                 : -ENAMETOOLONG;
}

/* Locks the file. Returns a mapping, which keeps it locked; NULL: it cannot be had. */
static void *hold(int fd, bool *waited)
{
	void *held;

	*waited = own_file_lock(fd, LOCK_EX, &DEADLINE_IN(0)) != 0;
	if (*waited && own_file_lock(fd, LOCK_EX, &DEADLINE_IN(PATIENCE_NS)) != 0)
		return NULL;
	held = mmap(NULL, SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	if (held == MAP_FAILED)
		return NULL;
	/* A child that kept it would keep the lock; where that cannot be had there is none. */
	if (madvise(held, SIZE, MADV_DONTFORK) == 0)
		return held;
	munmap(held, SIZE);
	return NULL;
}

void *alone_begin(const struct device *device, bool *waited)
{
	int saved = errno, cancel, fd;
	void *held = NULL;

	*waited = false;
	if (!device->segment)
		return NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = open_file(device);
	if (fd >= 0) {
		held = hold(fd, waited);
		close(fd);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return held;
}

void alone_end(void *held)
{
	int saved = errno;

	if (held)
		munmap(held, SIZE);
	errno = saved;
}
