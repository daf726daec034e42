/* SPDX-License-Identifier: MIT */
/*
 * A world for tests of core/pace: processes, threads, devices and the driver by virtual time, in
 * one thread.
 *
 * Everything that happens is decided by the seed. core/pace runs as it is. It asks the time, waits
 * and wakes through its clock, and calls the driver through `struct driver`. Both are the world's.
 *
 * actor    something that will act at a time: a thread, a device, an appointment of the test's
 * thread   a coroutine; it runs until it waits. Host time that calls cost is owed and passes with
 *          its next wait
 * tenant   one process on one device; tenants with work take the device by slices
 * truth    the device's work for a tenant, by the device's own book
 */
#ifndef PACE_WORLD_H
#define PACE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/budget/device.h"
#include "core/peers/peers.h"
#include "core/cuda/driver.h"
#include "core/pace/pacer.h"
#include "tests/unit/pace_coroutine.h"

#define US ((uint64_t)1000)
#define MS (1000 * US)
#define S  (1000 * MS)

enum {
	WORLD_DEVICES = 8,
	WORLD_PROCESSES = 16,
	WORLD_THREADS = 80,
	WORLD_STREAMS = 64, /* of a tenant */
	WORLD_RESIDENT = 16,
	WORLD_CONTEXTS = 8, /* current in a thread */
};

struct world_settings {
	uint64_t seed;
	uint64_t wake_least_ns, wake_most_ns; /* from a deadline or a wake until the thread runs */
	uint64_t late_one_in, late_ns; /* of so many wakes one is so much later, at most; 0: none */
	uint64_t sync_ns;              /* from the end of work until who waits for it runs */
	uint64_t launch_ns;            /* host time of a launch */
	uint64_t latency_ns;           /* from a launch until the device may begin it */
	uint64_t slice_ns;            /* for how long a tenant has the device when others want it */
	uint64_t handing_ns;          /* until another tenant's work begins */
	uint64_t record_ns, query_ns; /* host time of recording and of asking for an event */
	int concurrency;              /* kernels of one tenant that run at once */
	unsigned int queue; /* launches that a stream takes before the launching thread waits */
	bool trace;         /* tells on stderr what happens */
};

extern const struct world_settings world_usual;

struct thread;
struct process;
struct tenant;
struct gpu;

struct actor {
	uint64_t at, order;
	int place; /* in the queue, + 1; 0: not in it */
	void (*act)(struct actor *actor);
};

/* --- time and threads (pace_world_time.c) --- */

struct thread {
	struct actor actor;
	int index;
	const char *name;
	struct process *process;
	void (*body)(void *argument);
	void *argument;
	struct coroutine coroutine;
	uint64_t owed_ns;
	uint64_t random;
	bool ended, is_due;
	_Atomic uint32_t *word;      /* waits until it changes */
	bool (*is_ready)(void *of);  /* waits until this is true, */
	void *ready_of;              /* of this, */
	struct tenant *ready_tenant; /* which changes with this */
	const char *doing;
	uint64_t since;
	CUcontext current[WORLD_CONTEXTS];
	int contexts;
};

extern struct world {
	struct world_settings settings;
	uint64_t now, order, events;
	struct thread *running;
	struct actor *queue[WORLD_THREADS + WORLD_DEVICES + 64];
	int queued;
	struct thread thread[WORLD_THREADS]; /* the first is the test itself */
	int threads;
	struct process *process[WORLD_PROCESSES];
	int processes;
	struct gpu *gpu[WORLD_DEVICES];
	bool on_device;  /* a device acts, on some thread's stack */
	uint64_t misuse; /* calls that a driver would not forgive */
	const char *misused;
} world;

void world_start(const struct world_settings *settings);
void world_end(void);
/* Lets time pass for everybody. By the test. */
void world_run_until(uint64_t at);
/* Runs act() at a time. by the test, which owns the actor. */
void world_appoint(struct actor *actor, uint64_t at, void (*act)(struct actor *actor));
void world_cancel(struct actor *actor);
/* Says where every thread is, on stderr. */
void world_tell_threads(void);
void world_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void world_fail(const char *why);
void world_misuse(const char *what);

struct thread *thread_begin(struct process *process, const char *name, void (*body)(void *),
                            void *argument);
/* By a thread of itself. */
void thread_work(uint64_t ns);        /* the host computes */
void thread_sleep_until(uint64_t at); /* as a sleep does: somewhat longer */
/* Waits until is_ready(of), which changes when something of the tenant ends. */
void thread_wait_for(const char *doing, struct tenant *tenant, bool (*is_ready)(void *), void *of);
void thread_wait_word(const char *doing, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline);
void threads_wake_word(_Atomic uint32_t *word);
void threads_look(struct tenant *tenant);
void threads_of_process_end(struct process *process);
void threads_of_process_go_on(struct process *process);

uint64_t random_next(uint64_t *state);
/* From least to most. */
uint64_t random_between(uint64_t *state, uint64_t least, uint64_t most);

/* --- devices (pace_world_device.c) --- */

/* Kernels of all ranks that wait for each other, by step. */
enum { MEETINGS = 8192 };
struct spin {
	int ranks;
	int started[MEETINGS];
};

struct event {
	struct gpu_context *context;
	uint64_t records, done; /* counts; done: the last that came to pass */
	uint64_t parts;         /* of a context's: streams in which it has not come to pass */
	uint64_t free_at; /* of a context's without work: when it comes to pass; 0: it has some */
	uint64_t at;
	bool is_destroyed;
};

enum item_kind { ITEM_KERNEL, ITEM_EVENT, ITEM_WAIT, ITEM_HOST };

struct item {
	enum item_kind kind;
	bool is_resident, has_begun, spins;
	uint64_t from; /* does not begin before */
	uint64_t left_ns;
	struct spin *spin;
	uint64_t step;
	struct event *event;
	uint64_t record;
	void (*call)(void *argument);
	void *argument;
	uint64_t *work; /* counts what was done of it */
};

struct stream {
	struct gpu_context *context;
	struct thread *owner; /* of a per-thread default stream */
	bool is_destroyed;
	struct item *item; /* a ring */
	unsigned int first, count, room;
	unsigned int kernels;
	uint64_t launched;
};

struct gpu_context {
	struct tenant *tenant;
	bool is_destroyed;
	struct gpu_context *next;
};

struct truth {
	uint64_t begin, end;
};

struct tenant {
	struct process *process;
	struct gpu *gpu;
	struct stream *stream[WORLD_STREAMS];
	int streams, turn;
	struct stream *resident[WORLD_RESIDENT];
	int residents;
	struct truth *truth; /* stretches in which it had the device */
	size_t truths, truth_room;
	uint64_t busy_ns;
};

struct gpu {
	struct actor actor;
	int index;
	struct tenant *tenant[WORLD_PROCESSES];
	int tenants;
	struct tenant *active, *last;
	uint64_t slice_end, since;
	uint64_t from; /* until then the device is handed over, and nothing runs */
};

struct tenant *tenant_create(struct process *process, int gpu);
void tenant_vanish(struct tenant *tenant); /* its work is gone */
/* Its books up to now. */
void tenant_note(struct tenant *tenant);
struct stream *stream_create(struct gpu_context *context);
/* Queues a copy of the item; the device looks at it. */
void stream_push(struct stream *stream, const struct item *item);
/* Lets streams pass that wait for this event, whoever should have recorded it. */
void event_open(struct event *gate);
bool tenant_is_idle(void *tenant);
bool stream_is_idle(void *stream);
void devices_start(void);
void devices_end(void);

/* --- the driver (pace_world_driver.c) --- */

void driver_start(void);
void driver_end(void);
struct gpu_context *context_create(struct tenant *tenant);
/* Returns what the handle means for the thread that asks. NULL: nothing, which is misuse. */
struct stream *stream_of(CUstream stream);
struct event *gate_create(struct gpu_context *context);
CUresult driver_launch(CUstream stream, const struct item *kernel);

/* --- processes (pace_world_process.c) --- */

struct job {
	struct lanes lanes;
	uint64_t number;
	int processes;
};

struct process {
	int index;
	struct job *job;
	bool is_stopped, is_dead, has_exited;
	struct tenant *tenant[WORLD_DEVICES];
	CUcontext context[WORLD_DEVICES];
	struct device device[WORLD_DEVICES];
	struct counters counters[WORLD_DEVICES]; /* of them, and the next */
	struct ledger ledger[WORLD_DEVICES];
	struct pacer *pacer[WORLD_DEVICES];
	struct pacer_settings settings[WORLD_DEVICES];
	struct peer_own record[WORLD_DEVICES];
	struct peers others[WORLD_DEVICES];
	_Atomic uint32_t launched; /* the watcher waits for it */
	bool watcher_rests;
	uint64_t watcher_looks;
};

/* The devices' tables of turns. */
extern struct turns world_turns[WORLD_DEVICES];

struct job *world_job(void);
/* Paced on the devices of the mask; share in percent. */
struct process *process_create(struct job *job, uint32_t devices);
void process_set(struct process *process, int gpu, double share, int policy);
/*
 * Has a peer record on the device from now on; who is not a best-effort job writes it while one is
 * there. A normal process gives way to guaranteed ones.
 */
void process_share(struct process *process, int gpu, int priority, bool gives_way);
void process_stop(struct process *process);
void process_continue(struct process *process);
void process_kill(struct process *process);
/* By a thread of its own: the pacers let go. Its threads go on until they return. */
void process_exit(struct process *process);
/* Before core/pace runs for the thread that runs, and when its watcher is wanted. */
void process_enter(void);
void process_call_watcher(void);
void processes_start(void);
void processes_end(void);

/* Do what the shim's hooks do, on a thread of the process. */
void call_launch(CUstream stream, const struct item *kernel, uint64_t key);
void call_synchronize_stream(CUstream stream);
void call_synchronize(void);
void call_stream_wait(CUstream stream, CUevent event);
void call_record(CUevent event, CUstream stream);
void call_host_function(CUstream stream, void (*call)(void *), void *argument, uint64_t ns);
/* Makes the process's context on this device current, alone. */
void call_use(int gpu);
void call_destroy_context(int gpu);

/* --- measures (pace_world_measure.c) --- */

uint64_t truth_busy(struct tenant *tenant, uint64_t from, uint64_t to);
struct window {
	double least, most; /* percent held in any window of the length */
	uint64_t least_at, most_at;
};
struct window truth_windows(struct tenant *tenant, uint64_t from, uint64_t to, uint64_t length);
/* The longest stretch in which no gap was longer than `gap`. */
uint64_t truth_longest(struct tenant *tenant, uint64_t from, uint64_t to, uint64_t gap,
                       uint64_t *at);
/* Time in which nobody had the device. */
uint64_t gpu_idle(int gpu, uint64_t from, uint64_t to);

#endif
