/* SPDX-License-Identifier: MIT */
/*
 * Process slots: whether the process of one lives, drains or has gone, which are in use, and the
 * repairs where a process died: its slot, the totals and the lock.
 *
 * Runs inside the user's process, under the segment's lock or on a reader's copy: no wait.
 *
 * The state of a process is read from the slot mutex's futex word (pread; a thread id and no
 * FUTEX_OWNER_DIED). It is the same truth that trylock uses, and right across pid namespaces, fork,
 * exec and closed descriptors. Record locks per open file are inherited by forked children, and pid
 * plus start time is local to a namespace.
 *
 * After an out-of-memory kill the word may be wrong. The kernel takes the memory of the dying
 * process away, its list of robust mutexes included, before its threads have marked their locks. It
 * did so at once before Linux 5.18, and does so after two seconds since. So a thread id that does
 * not exist any more counts as dead, too, where the process was in our namespace of process ids.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/state/layout.h"

/*
 * Totals: where they stand, and how they are made anew from slots and records when a
 * process was killed while it changed them. Under the segment's lock: no system call.
 */

/* Returns the ledger whose charge is the total where that says so; NULL: it is the total itself. */
static struct ledger *open_ledger(const struct segment_file *file, int device, uint64_t total)
{
	uint64_t slot = total & ~LEDGER_OPEN;

	return total & LEDGER_OPEN && slot < (uint64_t)rows_of(&file->header) * SEGMENT_ROW
	           ? &books_of(file, (int)slot, device)->ledger
	           : NULL;
}

uint64_t quota_charged(const struct segment_file *file, int device, enum segment_tier tier)
{
	uint64_t total = quota_get(&file->header.charged[device][tier]);
	const struct ledger *open =
	    tier == SEGMENT_ON_DEVICE ? open_ledger(file, device, total) : NULL;

	return open ? ledger_charged(open, tier) : total & ~LEDGER_OPEN;
}

void quota_close(struct segment_file *file, int device)
{
	_Atomic uint64_t *total = &file->header.charged[device][SEGMENT_ON_DEVICE];
	struct ledger *open = open_ledger(file, device, quota_get(total));

	if (!open)
		return;
	ledger_close(open, SEGMENT_ON_DEVICE);
	quota_set(total, ledger_charged(open, SEGMENT_ON_DEVICE));
}

bool export_is_orphan(const struct segment_export *e)
{
	return atomic_load(&e->bytes) && !atomic_load(&e->owner) && e->device < SEGMENT_DEVICES;
}

/* Counts the bytes of exports without an owner. */
static void exports_recount(const struct segment_file *file, uint64_t orphaned[SEGMENT_DEVICES])
{
	memset(orphaned, 0, SEGMENT_DEVICES * sizeof *orphaned);
	for (int i = 0; i < SEGMENT_EXPORTS; i++)
		if (export_is_orphan(&file->export[i]))
			orphaned[file->export[i].device] += atomic_load(&file->export[i].bytes);
}

/*
 * Orphans the exports of a slot that is retired; may be repeated. Returns whether there were any.
 */
static bool exports_forget_slot(struct segment_file *file, uint32_t slot)
{
	bool any = false;

	for (int i = 0; i < SEGMENT_EXPORTS; i++)
		if (atomic_load(&file->export[i].owner) == slot + 1) {
			atomic_store(&file->export[i].owner, 0);
			any = true;
		}
	return any;
}

void quota_recount(struct segment_file *file)
{
	uint64_t total[SEGMENT_DEVICES][SEGMENT_TIERS] = {0}, orphaned[SEGMENT_DEVICES];

	for (int d = 0; d < SEGMENT_DEVICES; d++)
		quota_close(file, d);
	exports_recount(file, orphaned);
	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_ALL)) >= 0;)
		for (int d = 0; d < devices_of(&file->header); d++)
			for (int s = 0; s < SEGMENT_TIERS; s++)
				total[d][s] += ledger_charged(&books_of(file, n, d)->ledger, s);
	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		quota_set(&file->header.orphaned[d], orphaned[d]);
		total[d][SEGMENT_ON_DEVICE] += orphaned[d];
		for (int s = 0; s < SEGMENT_TIERS; s++)
			quota_set(&file->header.charged[d][s], total[d][s]);
	}
}

uint64_t segment_drain_ns = SEGMENT_DRAIN_NS;

int segment_mutex_init(union segment_mutex *mutex, bool is_shared)
{
	/* NORMAL: other types compare thread ids, which repeat in other pid namespaces */
	pthread_mutexattr_t attributes;
	int error = pthread_mutexattr_init(&attributes);
	if (error)
		return -error;
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	error = pthread_mutex_init(&mutex->mutex, is_shared ? &attributes : NULL);
	pthread_mutexattr_destroy(&attributes);
	return -error;
}

/* Tries to take the slot's mutex. Returns whether the calling thread holds it now. */
static bool slot_try(struct segment_slot *slot)
{
	int error = lock_robust_try(&slot->life.mutex); /* held for life */
	if (error == EOWNERDEAD)
		error = lock_robust_mend(&slot->life.mutex);
	return error == 0;
}

static bool slot_owner_is_dead(struct segment_slot *slot)
{
	if (!slot_try(slot))
		return false;
	lock_robust_release(&slot->life.mutex);
	return true;
}

/*
 * The answer of trylock, read from the bytes. The kernel's robust futex word is the holder's thread
 * id, and the kernel itself marks it when the holder dies. glibc keeps the word first.
 */
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex word comes first");

static uint32_t slot_word(const union segment_mutex *mutex)
{
	uint32_t word;

	memcpy(&word, mutex, sizeof word);
	return word;
}

uint64_t slot_pid_space(void)
{
	struct stat found;

	return file_status("/proc/self/ns/pid", &found) == 0 ? (uint64_t)found.st_ino : 0;
}

/* Returns whether the thread does not exist: process 0 is any. One that may not be asked exists. */
static bool slot_thread_is_gone(pid_t process, pid_t thread)
{
	int saved = errno;
	long result = process ? syscall(SYS_tgkill, process, thread, 0) : kill(thread, 0);
	bool is_gone = result != 0 && errno == ESRCH;

	errno = saved;
	return is_gone;
}

static bool slot_owner_is_gone(const struct segment_slot *slot, uint32_t word)
{
	return slot->pid_space && slot->pid &&
	       slot_thread_is_gone(slot->pid, (pid_t)(word & FUTEX_TID_MASK)) &&
	       slot->pid_space == slot_pid_space();
}

static bool slot_word_lives(uint32_t word)
{
	return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

bool slot_owner_lives(const struct segment_slot *slot)
{
	uint32_t word = slot_word(&slot->life);

	return slot_word_lives(word) && !slot_owner_is_gone(slot, word);
}

/* Does the kernel's work with the word of a thread that has died. */
static bool slot_mark(union segment_mutex *mutex, uint32_t word)
{
	_Atomic uint32_t *at = (_Atomic uint32_t *)mutex;

	return atomic_compare_exchange_strong(at, &word, (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED);
}

/* Marks the slot as the kernel does when its owner dies, where that has died unmarked.
 * Under the lock. */
static void slot_mark_if_gone(struct segment_slot *slot)
{
	uint32_t word = slot_word(&slot->life);

	if (slot_word_lives(word) && slot_owner_is_gone(slot, word))
		slot_mark(&slot->life, word);
}

/*
 * Does the same with the lock, for which the caller has waited in vain. The lock names its holder
 * by the thread alone, so all processes with a slot must be in our namespace. Returns whether it
 * was.
 */
static bool slot_mark_lock_if_gone(struct segment_file *file)
{
	uint32_t word = slot_word(&file->header.lock);
	uint64_t own = slot_pid_space();
	int number = -1;

	if (!own || !slot_word_lives(word) ||
	    !slot_thread_is_gone(0, (pid_t)(word & FUTEX_TID_MASK)))
		return false;
	if (slots_next(&file->header, -1, SLOTS_ALL) < 0)
		return false;
	while ((number = slots_next(&file->header, number, SLOTS_ALL)) >= 0)
		if (slot_of(file, number)->pid_space != own)
			return false;
	return slot_mark(&file->header.lock, word);
}

/*
 * Returns how long the memory may still be held. The whole drain begins when the death is noticed.
 * The driver gives memory back after a death. Neither the time of exit() nor the time of an unseen
 * death tells when that was. Where no process was there to notice it, it came while the job was
 * last heard of, at the latest.
 */
uint64_t slot_drain_left(const struct segment_header *header, const struct segment_slot *slot,
                         uint64_t now)
{
	uint64_t most = atomic_load(&slot->exiting_ns) ? SEGMENT_EXIT_DRAIN_NS : segment_drain_ns;
	uint64_t polled = atomic_load(&header->polled_ns);
	uint64_t silent = now > polled ? now - polled : 0;

	if (silent <= SEGMENT_SILENT_NS)
		return most;
	return silent - SEGMENT_SILENT_NS < most ? most - (silent - SEGMENT_SILENT_NS) : 0;
}

enum segment_slot_state slot_state(const struct segment_header *header, int number)
{
	if (slot_is(header->draining, number))
		return SLOT_DRAINING;
	return slot_is(header->live, number) ? SLOT_LIVE : SLOT_FREE;
}

static uint64_t slots_of_row(const struct segment_header *header, int row, enum slots which)
{
	uint64_t live = atomic_load(&header->live[row]),
	         drain = atomic_load(&header->draining[row]);

	return which == SLOTS_ALL ? live | drain : which == SLOTS_LIVE ? live & ~drain : drain;
}

int slots_next(const struct segment_header *header, int after, enum slots which)
{
	uint64_t behind = UINT64_MAX << (after + 1) % SEGMENT_ROW;

	for (int row = (after + 1) / SEGMENT_ROW; row < rows_of(header); row++) {
		uint64_t bits = slots_of_row(header, row, which) & behind;

		if (bits)
			return row * SEGMENT_ROW + __builtin_ctzll(bits);
		behind = UINT64_MAX;
	}
	return -1;
}

static void set_bit(_Atomic uint64_t *bits, int number)
{
	atomic_fetch_or(&bits[number / SEGMENT_ROW], (uint64_t)1 << number % SEGMENT_ROW);
}

static void clear_bit(_Atomic uint64_t *bits, int number)
{
	atomic_fetch_and(&bits[number / SEGMENT_ROW], ~((uint64_t)1 << number % SEGMENT_ROW));
}

void slots_enter(struct segment_file *file, int number)
{
	set_bit(file->header.live, number);
}

static void slots_drain(struct segment_file *file, int number)
{
	set_bit(file->header.draining, number);
}

static void slots_free(struct segment_file *file, int number)
{
	clear_bit(file->header.live, number);
	clear_bit(file->header.draining, number);
}

/*
 * Slots: which processes are in the job, which have died, and when the dead are released.
 *
 * Runs inside the user's process, under the segment's lock: no wait.
 */

/* So many of the living are asked for by their thread ids each time. */
enum { SLOTS_ASKED = 8 };

static void slot_clear(struct segment_file *file, int number)
{
	struct segment_slot *slot = slot_of(file, number);
	struct lane *lane = &file->lanes.lane[number];

	/* all but the mutex; its counters may be looked at, so word by word and not by memset */
	for (int d = 0; d < devices_of(&file->header); d++) {
		struct segment_books *books = books_of(file, number, d);
		_Atomic uint64_t *word = (_Atomic uint64_t *)&books->counters;

		ledger_clear(&books->ledger);
		statistics_set(&books->placed, 0);
		for (size_t i = 0; i < sizeof books->counters / sizeof *word; i++)
			statistics_set(&word[i], 0);
	}
	for (int i = 0; i < SEGMENT_EXPORTS / 64; i++)
		atomic_store(&slot->importing[i], 0);
	atomic_store(&lane->seen_ns, 0);
	atomic_store(&lane->devices, 0);
	atomic_store(&lane->flying, 0);
	atomic_store(&lane->stuck, 0);
	slot->pid = 0;
	slot->pid_space = 0;
	slot->started_ns = slot->drained_ns = 0;
	atomic_store(&slot->exiting_ns, 0);
	atomic_store(&slot->override_hash, 0);
	atomic_store(&slot->lacks, 0);
	atomic_store(&slot->threads, 0);
	atomic_store(&slot->contexts, 0);
	memset(slot->command, 0, sizeof slot->command);
	memset(slot->complaint, 0, sizeof slot->complaint);
}

/* Finishes slots_retire(). Returns whether totals are to be made anew. */
static bool slots_finish_retiring(struct segment_file *file)
{
	struct segment_header *header = &file->header;
	uint32_t retiring = atomic_load(&header->retiring);
	if (retiring == 0 || retiring > (uint32_t)rows_of(header) * SEGMENT_ROW)
		return false;
	int number = (int)retiring - 1;
	memcpy(header->ended, header->ended_next, sizeof header->ended);
	bool has_owned = exports_forget_slot(file, retiring - 1);
	slots_free(file, number);
	slot_clear(file, number);
	atomic_exchange(&header->retiring, 0);
	return has_owned;
}

void slots_retire(struct segment_file *file, int number)
{
	struct segment_header *header = &file->header;
	uint64_t charged[SEGMENT_DEVICES][SEGMENT_TIERS];
	int devices = devices_of(header);

	segment_change_begin(header);
	memcpy(header->ended_next, header->ended, sizeof header->ended_next);
	for (int d = 0; d < devices; d++) {
		const struct segment_books *books = books_of(file, number, d);

		quota_close(file, d);
		totals_add_ended(&header->ended_next[d], books);
		for (int s = 0; s < SEGMENT_TIERS; s++) {
			charged[d][s] = ledger_charged(&books->ledger, s);
			header->peak[d][s] = quota_peak(header->peak[d][s], &books->ledger, s);
		}
		header->driver_peak[d] = quota_driver_peak(header->driver_peak[d], &books->ledger);
	}
	/* an exchange: neither the compiler nor the processor moves a store across it */
	atomic_exchange(&header->retiring, (uint32_t)number + 1);
	if (slots_finish_retiring(file))
		quota_recount(file);
	else
		for (int d = 0; d < devices; d++)
			for (int s = 0; s < SEGMENT_TIERS; s++)
				atomic_fetch_sub(&header->charged[d][s], charged[d][s]);
	segment_change_end(header);
}

/* Lets the slot drain if its owner has died. Returns whether it has. */
static bool drains_now(struct segment_file *file, int number)
{
	struct segment_slot *slot = slot_of(file, number);
	uint64_t now = clock_now();

	if (!slot_owner_is_dead(slot))
		return false;
	slot->drained_ns = now + slot_drain_left(&file->header, slot, now);
	slots_drain(file, number);
	return true;
}

static void retire_drained(struct segment_file *file)
{
	uint64_t now = clock_now();

	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_DRAINING)) >= 0;)
		if (slot_is_drained(slot_of(file, n), now))
			slots_retire(file, n);
}

void slots_probe(struct segment_file *file)
{
	struct segment_header *header = &file->header;
	int row = (int)(header->probed % SEGMENT_ROWS), looked_at = 0;

	for (int rows = rows_of(header); rows > 0 && looked_at < SEGMENT_ROW; rows--) {
		row = (row + 1) % rows_of(header);
		for (uint64_t bits = slots_of_row(header, row, SLOTS_LIVE); bits;
		     bits &= bits - 1, looked_at++)
			drains_now(file, row * SEGMENT_ROW + __builtin_ctzll(bits));
	}
	header->probed = (uint32_t)row;
	retire_drained(file);
}

void slots_look_for_gone(struct segment *segment)
{
	const struct segment_header *header = &segment->file->header;

	for (int i = 0; i < SLOTS_ASKED; i++) {
		segment->asked = slots_next(header, segment->asked, SLOTS_LIVE);
		if (segment->asked < 0)
			return;
		if (segment->asked != segment->number)
			slot_mark_if_gone(slot_of(segment->file, segment->asked));
	}
}

bool slots_any_lives(struct segment_file *file)
{
	int number = -1;

	while ((number = slots_next(&file->header, number, SLOTS_LIVE)) >= 0) {
		slot_mark_if_gone(slot_of(file, number));
		if (!drains_now(file, number))
			break;
	}
	retire_drained(file);
	return number >= 0;
}

int slots_take(struct segment_file *file)
{
	const struct segment_header *header = &file->header;

	for (int row = 0; row < rows_of(header); row++)
		for (uint64_t bits = ~slots_of_row(header, row, SLOTS_ALL); bits;
		     bits &= bits - 1) {
			int number = row * SEGMENT_ROW + __builtin_ctzll(bits);
			struct segment_slot *slot = slot_of(file, number);

			if (!slot->has_life && segment_mutex_init(&slot->life, true) != 0)
				return -1;
			slot->has_life = 1;
			if (!slot_try(slot))
				continue; /* of one that has left just now */
			slot_clear(file, number);
			return number;
		}
	return -1;
}

/*
 * The locks of a segment, and the repairs when a holder was killed.
 *
 * Runs inside the user's process: every wait has an end, no signal, no wait inside the kernel that
 * only another process can finish. Between segment_lock() and segment_unlock() no system call.
 *
 * The lock of the quota is taken by trylock only, with yields and then sleeps of 20 us, for at most
 * 1 s. timedlock depends on the settable clock, and clocklock needs glibc 2.30. As no process waits
 * in the kernel, unlocking makes no system call.
 *
 * Opening, creating, replacing and removing a segment happen under a record lock of one byte per
 * job in DIR/.lock; a new file is built aside and renamed when it is complete. A slot is taken
 * under the quota's lock alone, unless the segment says that it is removed.
 */

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
		                              !slot_mark_lock_if_gone(file))) {
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
	slots_finish_retiring(file);
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
