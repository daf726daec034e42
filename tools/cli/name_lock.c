/* SPDX-License-Identifier: MIT */
/* A launcher's lock on a job's name. */
#include "tools/cli/name_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/own_file.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

/* A launcher has set up its job by then, or has been stopped. */
#define SETUP_NS 30000000000ull

static char *path; /* NULL: no name is locked */
static int lock = -1;

static void name_lock_open_file(void)
{
	lock = own_file_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600);
	if (lock < 0)
		fail("%s: %s", path, own_file_error(lock));
}

/*
 * Returns whether the file was removed. The last to leave removes it; a lock on a removed one has
 * no effect.
 */
static bool was_removed(void)
{
	struct stat status;

	return file_status_of(lock, &status) != 0 || status.st_nlink == 0;
}

static void make_token(char token[NAME_LOCK_TOKEN_MAX])
{
	snprintf(token, NAME_LOCK_TOKEN_MAX, "%x-%" PRIx64, (unsigned)getpid(), clock_of_day());
}

static void leave_token(const char *token)
{
	size_t length = strlen(token);

	if (ftruncate(lock, 0) != 0 || pwrite(lock, token, length, 0) != (ssize_t)length)
		fail("%s: %s", path, strerror(errno));
}

/*
 * Reads the other launcher's token, once it has set up its job. One that was killed before that has
 * left none.
 */
static void read_token(char token[NAME_LOCK_TOKEN_MAX])
{
	ssize_t length = pread(lock, token, NAME_LOCK_TOKEN_MAX - 1, 0);

	if (length > 0)
		token[length] = '\0';
	else
		make_token(token);
}

/* Waits for the other launcher, which has the lock for itself until its job's limits stand. */
static void wait_for_setup(void)
{
	struct deadline deadline = DEADLINE_IN(SETUP_NS);
	int error = own_file_lock(lock, LOCK_SH, &deadline);

	if (error)
		fail("%s: %s; the spillway run that holds it does not get on", path,
		     own_file_error(error));
}

bool name_lock_take(const char *job, bool join, bool *first, char token[NAME_LOCK_TOKEN_MAX])
{
	path = jobs_file(job, "launch");
	for (;;) {
		name_lock_open_file();
		*first = flock(lock, LOCK_EX | LOCK_NB) == 0;
		if (!*first && errno != EWOULDBLOCK)
			fail("%s: %s", path, strerror(errno));
		if (!*first && !join)
			return false;
		if (!*first)
			wait_for_setup();
		if (!was_removed())
			break;
		close(lock);
	}
	atexit(name_lock_release);
	if (*first) {
		make_token(token);
		leave_token(token);
	} else {
		read_token(token);
	}
	return true;
}

void name_lock_share(void)
{
	flock(lock, LOCK_SH);
}

void name_lock_release(void)
{
	if (!path)
		return;
	if (flock(lock, LOCK_EX | LOCK_NB) == 0)
		unlink(path);
	close(lock);
	free(path);
	path = NULL;
}
