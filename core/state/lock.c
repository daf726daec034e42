/* SPDX-License-Identifier: MIT */
/*
 * The locks of a segment, and what is done when one's holder was killed.
 *
 * Runs inside the user's process: every wait has an end, no signal, no wait inside the kernel that
 * only another process can finish. Between segment_lock() and segment_unlock() no system call.
 *
 * The lock of the quota is taken by trylock only, yielding, then sleeping 20 us, at most for 1 s:
 * timedlock depends on the settable clock, clocklock needs glibc 2.30; and as nobody waits in the
 * kernel, unlocking makes no system call.
 *
 * Opening, creating, replacing and removing a segment happen under a record lock of one byte per
 * job in DIR/.lock; a new file is built aside and renamed when it is complete. A seat is taken
 * under the quota's lock alone, unless the segment says that it is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/state/layout.h"

#define LOCK_WAIT_NS     1000000000ull
#define JOB_LOCK_WAIT_NS 5000000000ull

enum { LOCK_SPINS = 100, LOCK_SLEEP_NS = 20000, JOB_LOCK_SLEEP_NS = 500000 };

int segment_lock(struct segment_file *file)
{
	pthread_mutex_t *mutex = &file->header.lock.mutex;
	struct deadline until = DEADLINE_IN(LOCK_WAIT_NS);

	locks_before(mutex, LOCK_SEGMENT);
	for (int tries = 0;; tries++) {
		int error = lock_robust_try(mutex);
		if (error == 0 || error == EOWNERDEAD)
			locks_taken(mutex, LOCK_SEGMENT);
		if (error == 0)
			return 0;
		if (error == EOWNERDEAD) {
			/* killed here, the next one finds it dead again and repeats the repair */
			segment_repair(file);
			lock_robust_mend(mutex);
			return 0;
		}
		if (error == EBUSY && tries < LOCK_SPINS) {
			sched_yield();
		} else if (error != EBUSY || (!deadline_nap(&until, LOCK_SLEEP_NS) &&
		                              !seat_mark_lock_if_gone(file))) {
			locks_missed();
			return -EBUSY;
		}
	}
}

void segment_unlock(struct segment_file *file)
{
	locks_given(&file->header.lock.mutex);
	lock_robust_release(&file->header.lock.mutex);
}

void segment_repair(struct segment_file *file)
{
	seats_finish_retiring(file);
	quota_recount(file);
	if (atomic_load(&file->header.sequence) & 1)
		segment_change_end(&file->header);
}

/* Returns which byte of the lock file is this job's; two jobs on one byte only wait for each
 * other. */
static off_t lock_byte(const char *job)
{
	uint32_t hash = 2166136261u;
	for (; *job; job++)
		hash = (hash ^ (unsigned char)*job) * 16777619u;
	return hash >> 1;
}

int segment_job_lock(int directory, const char *job)
{
	int fd = openat(directory, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	struct deadline until = DEADLINE_IN(JOB_LOCK_WAIT_NS);
	for (;;) {
		struct flock lock = {
		    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = lock_byte(job), .l_len = 1};
		if (fcntl(fd, F_SETLK, &lock) == 0)
			return fd;
		int error = errno;
		if (error == EAGAIN || error == EACCES) {
			if (deadline_nap(&until, JOB_LOCK_SLEEP_NS))
				continue;
			error = EBUSY;
		} else if (error == EINTR) {
			continue;
		}
		close(fd);
		return -error;
	}
}
