/* SPDX-License-Identifier: MIT */
/* Things that several processes of the machine hold together: device memory, and events. */
#include "tests/softgpu/machine_books.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int own_index(void)
{
	return (int)(self - machine->processes);
}

static bool holds(const struct machine_holders *holders, int process)
{
	return holders->bits[process / 64] >> (process % 64) & 1;
}

static void join(struct machine_holders *holders, int process)
{
	holders->bits[process / 64] |= 1ULL << (process % 64);
}

static void part(struct machine_holders *holders, int process)
{
	holders->bits[process / 64] &= ~(1ULL << (process % 64));
}

/* The first holder that is not `but`, or -1. */
static int another(const struct machine_holders *holders, int but)
{
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (i != but && holds(holders, i))
			return i;
	return -1;
}

/* The process parts from the memory; another pays for it from now on. False: it was the last. */
static bool leave_memory(struct machine *books, struct machine_shared *shared, int process)
{
	int other = another(&shared->holders, process);
	if (other >= 0 && shared->payer == process) {
		books->processes[other].device[shared->device].physical += shared->bytes;
		shared->payer = other;
		books->processes[process].device[shared->device].physical -= shared->bytes;
	}
	part(&shared->holders, process);
	return other >= 0;
}

static void announce(struct machine_event *event, uint32_t done)
{
	__atomic_store_n(&event->done, done, __ATOMIC_RELEASE);
	syscall(SYS_futex, &event->done, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void shares_forget(struct machine *books, int process)
{
	for (int i = 0; i < MAX_SHARED; i++)
		if (holds(&books->shared[i].holders, process))
			leave_memory(books, &books->shared[i], process);
	for (int i = 0; i < MAX_EVENTS; i++) {
		struct machine_event *event = &books->events[i];
		if (!holds(&event->holders, process))
			continue;
		part(&event->holders, process);
		if (event->recorder == process)
			announce(event, event->recorded);
	}
}

bool machine_share(int device, uint64_t bytes, struct shared_name *name)
{
	bool found = false;
	books_lock(machine);
	for (uint32_t i = 0; i < MAX_SHARED && !found; i++) {
		struct machine_shared *shared = &machine->shared[i];
		if (another(&shared->holders, -1) >= 0)
			continue;
		shared->generation++;
		shared->bytes = bytes;
		shared->device = device;
		shared->payer = own_index();
		join(&shared->holders, own_index());
		*name = (struct shared_name){.generation = shared->generation, .index = i};
		found = true;
	}
	books_unlock(machine);
	return found;
}

bool machine_hold(const struct shared_name *name)
{
	if (name->index >= MAX_SHARED)
		return false;
	struct machine_shared *shared = &machine->shared[name->index];
	books_lock(machine);
	bool there = shared->generation == name->generation && another(&shared->holders, -1) >= 0;
	if (there)
		join(&shared->holders, own_index());
	books_unlock(machine);
	return there;
}

bool machine_unhold(const struct shared_name *name)
{
	struct machine_shared *shared = &machine->shared[name->index];
	books_lock(machine);
	bool last = !leave_memory(machine, shared, own_index());
	if (last)
		self->device[shared->device].physical -= shared->bytes;
	books_unlock(machine);
	return last;
}

bool machine_event_new(struct shared_name *name)
{
	bool found = false;
	books_lock(machine);
	for (uint32_t i = 0; i < MAX_EVENTS && !found; i++) {
		struct machine_event *event = &machine->events[i];
		if (another(&event->holders, -1) >= 0)
			continue;
		__atomic_fetch_add(&event->generation, 1, __ATOMIC_RELEASE);
		event->recorded = 0;
		__atomic_store_n(&event->done, 0, __ATOMIC_RELEASE);
		event->recorder = -1;
		join(&event->holders, own_index());
		*name = (struct shared_name){.generation = event->generation, .index = i};
		found = true;
	}
	books_unlock(machine);
	return found;
}

bool machine_event_hold(const struct shared_name *name)
{
	if (name->index >= MAX_EVENTS)
		return false;
	struct machine_event *event = &machine->events[name->index];
	books_lock(machine);
	bool there = event->generation == name->generation && another(&event->holders, -1) >= 0;
	if (there)
		join(&event->holders, own_index());
	books_unlock(machine);
	return there;
}

void machine_event_unhold(const struct shared_name *name)
{
	books_lock(machine);
	part(&machine->events[name->index].holders, own_index());
	books_unlock(machine);
}

uint32_t machine_event_record(const struct shared_name *name)
{
	struct machine_event *event = &machine->events[name->index];
	books_lock(machine);
	uint32_t number = ++event->recorded;
	event->recorder = own_index();
	books_unlock(machine);
	return number;
}

void machine_event_done(const struct shared_name *name, uint32_t number)
{
	struct machine_event *event = &machine->events[name->index];
	books_lock(machine);
	if (event->generation == name->generation && (int32_t)(number - event->done) > 0)
		announce(event, number);
	books_unlock(machine);
}

uint32_t machine_event_last(const struct shared_name *name)
{
	const struct machine_event *event = &machine->events[name->index];
	books_lock(machine);
	uint32_t number = event->recorded;
	books_unlock(machine);
	return number;
}

bool machine_event_is_done(const struct shared_name *name, uint32_t number)
{
	const struct machine_event *event = &machine->events[name->index];
	return __atomic_load_n(&event->generation, __ATOMIC_ACQUIRE) != name->generation ||
	       (int32_t)(__atomic_load_n(&event->done, __ATOMIC_ACQUIRE) - number) >= 0;
}

void machine_event_wait(const struct shared_name *name, uint32_t number)
{
	const struct machine_event *event = &machine->events[name->index];
	struct timespec moment = {.tv_nsec = 20000000};
	uint32_t done = __atomic_load_n(&event->done, __ATOMIC_ACQUIRE);
	if ((int32_t)(done - number) >= 0)
		return;
	syscall(SYS_futex, &event->done, FUTEX_WAIT, done, &moment, NULL, 0);
	machine_sweep(); /* whoever recorded it may have died */
}
