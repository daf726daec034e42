/* SPDX-License-Identifier: MIT */
/*
 * The layout of the file that processes share; for machine.c, machine_share.c and slice.c alone.
 *
 * The holder of the lock may be killed in the middle of a change. So each change is one store, or a
 * few stores. Their order lets bytes be counted twice rather than not at all until the sweep.
 */
#ifndef SOFTGPU_MACHINE_BOOKS_H
#define SOFTGPU_MACHINE_BOOKS_H

#include <pthread.h>
#include <stdio.h>

#include "tests/softgpu/config.h"
#include "tests/softgpu/machine.h"

/* The version is part of the file's name: raise it with any change of the layout. */
#define MACHINE_VERSION 7
#define MAX_PROCESSES   128
#define MAX_SHARED      4096
#define MAX_EVENTS      1024
#define MACHINE_CGROUP  256

/* Busy time by the tenth of a second, for utilisation: the tick in the upper half of a word, the
 * microseconds in the lower. */
#define TICK_NS      100000000ULL
#define TICKS        16
#define TICKS_RECENT 10

struct machine_use {
	uint64_t physical; /* bytes; under the lock */
	uint64_t mapped;   /* bytes; atomic, like the rest */
	uint64_t busy_ns;
	uint64_t launches;
	uint64_t fetched;  /* bytes */
	uint64_t contexts; /* that it has now */
	uint64_t free_ns;  /* when its last kernel was over; kernels of a process do not overlap */
	uint64_t wants_ns; /* since when it waits for the device; 0: it does not */
	uint64_t lost_ns;  /* when the device was taken from it, as it did not run; 0: it was not */
	uint64_t recent[TICKS];
};

struct machine_process {
	pthread_mutex_t alive; /* held by the keeper thread for the life of the process */
	int32_t pid;           /* 0: free slot */
	uint64_t pid_space;    /* the namespace that the number is of */
	uint64_t found_dead_ns;
	uint64_t host;               /* bytes; atomic */
	char cgroup[MACHINE_CGROUP]; /* SOFTGPU_CGROUP; "": none */
	uint32_t is_terminated;      /* by the limiter; atomic */
	struct machine_use device[MAX_DEVICES];
};

struct machine_device {
	uint64_t total;
	uint32_t owner;   /* a process by its index + 1; 0: the device is free */
	uint32_t changes; /* of what those who wait look at, who sleep on it */
	uint64_t free_ns; /* when the last slice was over; the owner's */
	uint64_t recent[TICKS];
};

/* Processes that hold something together, by bit; with none it is free. */
struct machine_holders {
	uint64_t bits[MAX_PROCESSES / 64];
};

/* Device memory that several processes hold. Its bytes are in the count of one of them. */
struct machine_shared {
	struct machine_holders holders;
	uint64_t generation;
	uint64_t bytes;
	int32_t device;
	int32_t payer;
};

struct machine_event {
	struct machine_holders holders;
	uint64_t generation;
	uint32_t recorded, done; /* numbers of recordings; waiters sleep on `done` */
	int32_t recorder;        /* the process of the last recording */
};

struct machine {
	uint32_t ready;
	int32_t device_count;
	int32_t process_count; /* places in `processes` that have ever been taken */
	uint64_t release_delay_ns;
	pthread_mutex_t lock;
	struct machine_device devices[MAX_DEVICES];
	struct machine_process processes[MAX_PROCESSES];
	struct machine_shared shared[MAX_SHARED];
	struct machine_event events[MAX_EVENTS];
};

#if defined(__x86_64__)
#define MACHINE_ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define MACHINE_ARCHITECTURE "aarch64"
#else
#define MACHINE_ARCHITECTURE "other"
#endif

/*
 * The file's name tells its layout, so that no process maps a file of another one. For example, a
 * mutex has 40 bytes on x86-64 and 48 on aarch64, whose programs an emulator runs on the same host.
 */
static inline void machine_path(char *path, size_t size, const char *directory)
{
	snprintf(path, size, "%s/machine-%d-%s-%zu", directory, MACHINE_VERSION,
	         MACHINE_ARCHITECTURE, sizeof(struct machine));
}

extern struct machine *machine;      /* NULL before machine_join() */
extern struct machine_process *self; /* this process's slot */

/* A thread that has the books is not cancelled. */
void books_lock(struct machine *books);
void books_unlock(struct machine *books);
/* Takes note of processes that have died; the books are not locked. */
void machine_sweep(void);
/* slice.c: the share of the last second's whole ticks that was busy, in percent. */
unsigned int recent_percent(const uint64_t *recent);
/* And takes a dead process's devices from it. The books are locked. */
void slices_forget(struct machine *books, int process);
/*
 * limiter.c, with the books locked. Whether the limits of this process's cgroup allow so many bytes
 * more; whether a process that borrows was ended for them; what cuMemGetInfo tells.
 */
bool limiter_allows(const struct machine *books, int device, uint64_t bytes);
bool limiter_makes_room(struct machine *books, int device, uint64_t bytes);
void limiter_memory(const struct machine *books, int device, uint64_t *free_bytes,
                    uint64_t *total_bytes);
/* Writes dmem.current of a cgroup and of those above. */
void limiter_note(const struct machine *books, const char *cgroup);
/* machine_share.c: takes a dead process out of all it held. The books are locked. */
void shares_forget(struct machine *books, int process);

#endif
