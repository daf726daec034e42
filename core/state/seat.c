/* SPDX-License-Identifier: MIT */
/*
 * One seat: whether its process lives, drains or has gone, and which are in use.
 *
 * Runs inside the user's process, under the segment's lock or on a reader's copy: nothing that
 * waits.
 *
 * Who is alive is read from the seat mutex's futex word (pread; a thread id and no
 * FUTEX_OWNER_DIED): the same truth trylock uses, right across pid namespaces, fork, exec and
 * closed descriptors. Record locks per open file are inherited by forked children, and pid plus
 * start time is local to a namespace.
 *
 * After an out-of-memory kill the word may be wrong: the kernel takes the memory of the dying
 * process away, its list of robust mutexes included, before its threads have marked what they hold
 * (at once before Linux 5.18, after two seconds since). So a thread id that does not exist any more
 * counts as dead, too, where the process was in our namespace of process ids.
 */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file_status.h"

#include "core/state/layout.h"

uint64_t segment_drain_ns = SEGMENT_DRAIN_NS;

int segment_mutex_init(union segment_mutex *mutex)
{
	/* NORMAL: other types compare thread ids, which repeat in other pid namespaces */
	pthread_mutexattr_t attributes;
	int error = pthread_mutexattr_init(&attributes);
	if (error)
		return -error;
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	error = pthread_mutex_init(&mutex->mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return -error;
}

/* Tries to take the seat's mutex. Returns whether the calling thread holds it now. */
bool seat_try(struct segment_seat *seat)
{
	int error = lock_robust_try(&seat->life.mutex); /* held for life */
	if (error == EOWNERDEAD)
		error = lock_robust_mend(&seat->life.mutex);
	return error == 0;
}

bool seat_owner_is_dead(struct segment_seat *seat)
{
	if (!seat_try(seat))
		return false;
	lock_robust_release(&seat->life.mutex);
	return true;
}

/* What trylock would find, read from the bytes: the kernel's robust futex word is the holder's
 * thread id, and the kernel itself marks it when the holder dies. glibc keeps the word first. */
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex word comes first");

static uint32_t seat_word(const union segment_mutex *mutex)
{
	uint32_t word;

	memcpy(&word, mutex, sizeof word);
	return word;
}

uint64_t seat_pid_space(void)
{
	struct stat found;

	return file_status("/proc/self/ns/pid", &found) == 0 ? (uint64_t)found.st_ino : 0;
}

/* Returns whether the thread does not exist: process 0 is any. What may not be asked exists. */
static bool seat_thread_is_gone(pid_t process, pid_t thread)
{
	int saved = errno;
	long result = process ? syscall(SYS_tgkill, process, thread, 0) : kill(thread, 0);
	bool is_gone = result != 0 && errno == ESRCH;

	errno = saved;
	return is_gone;
}

static bool seat_owner_is_gone(const struct segment_seat *seat, uint32_t word)
{
	return seat->pid_space && seat->pid &&
	       seat_thread_is_gone(seat->pid, (pid_t)(word & FUTEX_TID_MASK)) &&
	       seat->pid_space == seat_pid_space();
}

static bool seat_word_lives(uint32_t word)
{
	return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

bool seat_owner_lives(const struct segment_seat *seat)
{
	uint32_t word = seat_word(&seat->life);

	return seat_word_lives(word) && !seat_owner_is_gone(seat, word);
}

/* Does what the kernel does with the word of a thread that has died. */
static bool seat_mark(union segment_mutex *mutex, uint32_t word)
{
	_Atomic uint32_t *at = (_Atomic uint32_t *)mutex;

	return atomic_compare_exchange_strong(at, &word, (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED);
}

void seat_mark_if_gone(struct segment_seat *seat)
{
	uint32_t word = seat_word(&seat->life);

	if (seat_word_lives(word) && seat_owner_is_gone(seat, word))
		seat_mark(&seat->life, word);
}

/* Its holder is known by the thread alone, so all who have a seat must be in our namespace. */
bool seat_mark_lock_if_gone(struct segment_file *file)
{
	uint32_t word = seat_word(&file->header.lock);
	uint64_t own = seat_pid_space();
	int number = -1;

	if (!own || !seat_word_lives(word) ||
	    !seat_thread_is_gone(0, (pid_t)(word & FUTEX_TID_MASK)))
		return false;
	if (seats_next(&file->header, -1, SEATS_ALL) < 0)
		return false;
	while ((number = seats_next(&file->header, number, SEATS_ALL)) >= 0)
		if (seat_of(file, number)->pid_space != own)
			return false;
	return seat_mark(&file->header.lock, word);
}

bool seat_is_drained(const struct segment_seat *seat, uint64_t now)
{
	/* farther away than it can have been set: another clock, so it was long ago */
	return now >= seat->drained_ns || seat->drained_ns - now > segment_drain_ns;
}

/* Returns how long the memory may still be held. The whole drain begins when the death is noticed:
 * the driver gives memory back after a death, and neither when exit() began nor when a death came
 * that nobody saw says when that was. Where nobody was there to notice it, it came while the job
 * was last heard of, at the latest. */
uint64_t seat_drain_left(const struct segment_header *header, const struct segment_seat *seat,
                         uint64_t now)
{
	uint64_t most = atomic_load(&seat->exiting_ns) ? SEGMENT_EXIT_DRAIN_NS : segment_drain_ns;
	uint64_t tended = atomic_load(&header->tended_ns);
	uint64_t silent = now > tended ? now - tended : 0;

	if (silent <= SEGMENT_SILENT_NS)
		return most;
	return silent - SEGMENT_SILENT_NS < most ? most - (silent - SEGMENT_SILENT_NS) : 0;
}

enum segment_seat_state seat_state(const struct segment_header *header, int number)
{
	if (seat_is(header->draining, number))
		return SEAT_DRAINING;
	return seat_is(header->live, number) ? SEAT_LIVE : SEAT_FREE;
}

uint64_t seats_of_row(const struct segment_header *header, int row, enum seats which)
{
	uint64_t live = atomic_load(&header->live[row]),
	         drain = atomic_load(&header->draining[row]);

	return which == SEATS_ALL ? live | drain : which == SEATS_LIVE ? live & ~drain : drain;
}

int seats_next(const struct segment_header *header, int after, enum seats which)
{
	uint64_t behind = UINT64_MAX << (after + 1) % SEGMENT_ROW;

	for (int row = (after + 1) / SEGMENT_ROW; row < rows_of(header); row++) {
		uint64_t bits = seats_of_row(header, row, which) & behind;

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

void seats_enter(struct segment_file *file, int number)
{
	set_bit(file->header.live, number);
}

void seats_drain(struct segment_file *file, int number)
{
	set_bit(file->header.draining, number);
}

void seats_free(struct segment_file *file, int number)
{
	clear_bit(file->header.live, number);
	clear_bit(file->header.draining, number);
}
