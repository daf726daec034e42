/*
 * One seat: whether its process lives, drains or has gone, and which are in use.
 *
 * Runs inside the user's process, under the segment's lock or on a reader's copy: no system call,
 * nothing that waits.
 *
 * Who is alive is read from the seat mutex's futex word (pread; a thread id and no
 * FUTEX_OWNER_DIED): the same truth trylock uses, right across pid namespaces, fork, exec and
 * closed descriptors. Record locks per open file are inherited by forked children, and pid plus
 * start time is local to a namespace.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>

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

bool seat_owner_lives(const struct segment_seat *seat)
{
	uint32_t word;
	memcpy(&word, &seat->life, sizeof word);
	return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
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
