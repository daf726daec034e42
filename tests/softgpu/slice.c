/* SPDX-License-Identifier: MIT */
/*
 * The process that has a device: kernels of one process at a time, a slice at a time, the one that
 * has waited longest next.
 *
 * The kernels run on threads of their processes. Where such a process is killed or stopped its
 * kernels stand still, which those of a real device would not. So waiting processes look for that
 * after 5 ms, and go past it.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/softgpu/machine_books.h"

#define LOOK_NS         5000000L
#define MOST_LATE_NS    100000ULL
#define SHORTEST_NAP_NS 10000ULL

/* The slice of this process on a device. The thread that runs a kernel of it has both. */
static struct {
	uint64_t began_ns;
	bool is_kept; /* atomic: no kernel runs in it, and the next one is queued */
} own[MAX_DEVICES];

static struct machine_device *device_of(int device)
{
	return &machine->devices[device];
}

/* How processes are named in `owner`. */
static uint32_t name_of(const struct machine_process *process)
{
	return (uint32_t)(process - machine->processes) + 1;
}

static bool somebody_waits(int device)
{
	for (int i = 0; i < machine->process_count; i++)
		if (__atomic_load_n(&machine->processes[i].device[device].wants_ns,
		                    __ATOMIC_SEQ_CST))
			return true;
	return false;
}

static struct machine_process *longest_waiting(int device)
{
	struct machine_process *found = NULL;
	uint64_t since = UINT64_MAX;
	for (int i = 0; i < machine->process_count; i++) {
		struct machine_process *process = &machine->processes[i];
		uint64_t wants =
		    __atomic_load_n(&process->device[device].wants_ns, __ATOMIC_SEQ_CST);
		if (wants && wants < since) {
			since = wants;
			found = process;
		}
	}
	return found;
}

static void tell_all(struct machine_device *books)
{
	__atomic_fetch_add(&books->changes, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &books->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Returns whether its threads run: it is not dead and not stopped. */
static bool is_running(const struct machine_process *process)
{
	char path[40], text[300];
	snprintf(path, sizeof(path), "/proc/%d/stat", process->pid);
	int fd = process->pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	const char *state = strrchr(text, ')');
	return state && state[1] == ' ' && !strchr("TtZX", state[2]);
}

/* Takes the device, or its place in the line, from a process that does not run. */
static void pass_over(int device)
{
	struct machine_device *books = device_of(device);
	uint32_t owner = __atomic_load_n(&books->owner, __ATOMIC_SEQ_CST);
	struct machine_process *process =
	    owner ? &machine->processes[owner - 1] : longest_waiting(device);
	if (!process || process == self || is_running(process))
		return;
	struct machine_use *use = &process->device[device];
	if (!owner) {
		__atomic_store_n(&use->wants_ns, 0, __ATOMIC_SEQ_CST);
	} else {
		uint64_t now = now_ns();
		__atomic_store_n(&use->lost_ns, now, __ATOMIC_SEQ_CST);
		books->free_ns = now;
		__atomic_compare_exchange_n(&books->owner, &owner, 0, false, __ATOMIC_SEQ_CST,
		                            __ATOMIC_SEQ_CST);
	}
	tell_all(books);
}

void slices_forget(struct machine *books, int process)
{
	for (int i = 0; i < MAX_DEVICES; i++) {
		uint32_t owner = (uint32_t)process + 1;
		if (__atomic_compare_exchange_n(&books->devices[i].owner, &owner, 0, false,
		                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			tell_all(&books->devices[i]);
	}
}

static void take_device(int device)
{
	if (config()->mps)
		return;
	struct machine_device *books = device_of(device);
	struct machine_use *use = &self->device[device];
	const struct timespec moment = {.tv_nsec = LOOK_NS};
	uint32_t mine = name_of(self);
	if (__atomic_exchange_n(&own[device].is_kept, false, __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(&books->owner, __ATOMIC_SEQ_CST) == mine)
		return;
	for (;;) {
		/* Again, where we were passed over. */
		if (!__atomic_load_n(&use->wants_ns, __ATOMIC_SEQ_CST))
			__atomic_store_n(&use->wants_ns, now_ns(), __ATOMIC_SEQ_CST);
		uint32_t seen = __atomic_load_n(&books->changes, __ATOMIC_SEQ_CST), nobody = 0;
		if (longest_waiting(device) == self &&
		    __atomic_compare_exchange_n(&books->owner, &nobody, mine, false,
		                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
		if (syscall(SYS_futex, &books->changes, FUTEX_WAIT, seen, &moment, NULL, 0) != 0)
			pass_over(device);
	}
	__atomic_store_n(&use->lost_ns, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&use->wants_ns, 0, __ATOMIC_SEQ_CST);
	own[device].began_ns = now_ns();
}

static void give_device(int device, uint64_t now)
{
	struct machine_device *books = device_of(device);
	uint32_t mine = name_of(self);
	self->device[device].free_ns = now;
	if (config()->mps || __atomic_load_n(&books->owner, __ATOMIC_SEQ_CST) != mine)
		return;
	books->free_ns = now;
	__atomic_store_n(&books->owner, 0, __ATOMIC_SEQ_CST);
	if (somebody_waits(device))
		tell_all(books);
}

/* The device was just taken. */
static void begin_at(struct slice *slice, uint64_t ready_ns)
{
	uint64_t free_ns =
	    config()->mps ? self->device[slice->device].free_ns : device_of(slice->device)->free_ns;
	uint64_t now = now_ns(), begin = ready_ns > free_ns ? ready_ns : free_ns;
	slice->begin_ns = begin < now ? begin : now;
}

void slice_begin(struct slice *slice, int device, uint64_t ready_ns)
{
	slice->device = device;
	slice->held_ns = slice->late_ns = 0;
	__atomic_fetch_add(&self->device[device].launches, 1, __ATOMIC_RELAXED);
	take_device(device);
	begin_at(slice, ready_ns);
	slice->lag_ns = slice_held(slice);
}

static void add_recent(uint64_t *recent, uint64_t now, uint64_t busy_ns)
{
	uint64_t tick = now / TICK_NS & UINT32_MAX;
	uint64_t *word = &recent[tick % TICKS], changed;
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	do {
		uint64_t before = old >> 32 == tick ? old & UINT32_MAX : 0;
		changed = tick << 32 | (before + busy_ns / 1000);
	} while (!__atomic_compare_exchange_n(word, &old, changed, true, __ATOMIC_RELAXED,
	                                      __ATOMIC_RELAXED));
}

unsigned int recent_percent(const uint64_t *recent)
{
	uint64_t now = now_ns() / TICK_NS & UINT32_MAX, busy_us = 0;
	for (int i = 0; i < TICKS; i++) {
		uint64_t word = __atomic_load_n(&recent[i], __ATOMIC_RELAXED);
		uint64_t age = now - (word >> 32);
		if (age >= 1 && age <= TICKS_RECENT)
			busy_us += word & UINT32_MAX;
	}
	uint64_t percent = busy_us * 100 / (TICKS_RECENT * TICK_NS / 1000);
	return percent < 100 ? (unsigned int)percent : 100;
}

/*
 * Ends what the kernel has had of the slice until now. While it was stopped the process had the
 * device only until somebody else took it.
 */
static void account(struct slice *slice, uint64_t now)
{
	struct machine_use *use = &self->device[slice->device];
	uint64_t lost = __atomic_load_n(&use->lost_ns, __ATOMIC_SEQ_CST);
	uint64_t end = lost && lost < now ? lost : now;
	uint64_t held = end > slice->begin_ns ? end - slice->begin_ns : 0;
	slice->held_ns += now - slice->begin_ns;
	slice->begin_ns = now;
	__atomic_fetch_add(&use->busy_ns, held, __ATOMIC_RELAXED);
	add_recent(use->recent, now, held);
	add_recent(device_of(slice->device)->recent, now, held);
}

void slice_poll(struct slice *slice)
{
	if (now_ns() - own[slice->device].began_ns < SLICE_NS)
		return;
	account(slice, now_ns());
	give_device(slice->device, slice->begin_ns);
	take_device(slice->device);
	begin_at(slice, slice->begin_ns);
}

uint64_t slice_end(struct slice *slice, bool is_kept)
{
	int device = slice->device;
	uint64_t now = now_ns(), end = now - slice->late_ns;

	account(slice, end > slice->begin_ns ? end : now);
	if (!is_kept || slice->begin_ns - own[device].began_ns >= SLICE_NS) {
		give_device(device, slice->begin_ns);
		return slice->begin_ns;
	}
	self->device[device].free_ns = device_of(device)->free_ns = slice->begin_ns;
	__atomic_store_n(&own[device].is_kept, true, __ATOMIC_SEQ_CST);
	return slice->begin_ns;
}

void slice_drop(int device)
{
	if (__atomic_exchange_n(&own[device].is_kept, false, __ATOMIC_SEQ_CST))
		give_device(device, device_of(device)->free_ns);
}

uint64_t slice_held(const struct slice *slice)
{
	return slice->held_ns + (now_ns() - slice->begin_ns);
}

void slice_wakes_on_time(void)
{
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

/*
 * A sleep ends some 20 us late even so, which is much for a kernel of 50 us. So it is begun that
 * much shorter, by what sleeps were late before, and what is left is spun.
 */
static void doze(uint64_t ns)
{
	static _Thread_local uint64_t usual_ns = 20000;
	uint64_t begin = now_ns(), end = begin + ns;
	/*
	 * At least half of it is slept: who only spins is soon held back by the system for longer.
	 */
	uint64_t early = usual_ns < ns / 2 ? usual_ns : ns / 2;
	if (ns >= SHORTEST_NAP_NS) {
		struct timespec pause = {.tv_nsec = (long)(ns - early)};
		nanosleep(&pause, NULL);
		uint64_t woke = now_ns(), meant = end - early;
		uint64_t late = woke > meant ? woke - meant : 0;
		late = late < MOST_LATE_NS ? late : MOST_LATE_NS;
		usual_ns = usual_ns - usual_ns / 8 + late / 8;
	}
	while (now_ns() < end)
		continue;
}

void slice_rest(struct slice *slice, uint64_t wanted)
{
	uint64_t held = slice_held(slice), late;
	if (held >= wanted)
		return;
	for (; held < wanted; held = slice_held(slice)) {
		uint64_t left = wanted - held;
		doze(left < SLICE_NS / 2 ? left : SLICE_NS / 2);
		slice_poll(slice);
	}
	late = held - wanted;
	slice->late_ns = late < MOST_LATE_NS ? late : MOST_LATE_NS;
}
