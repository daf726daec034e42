/* SPDX-License-Identifier: MIT */
/* Virtual time: the thread that acts next, and threads as coroutines. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPILLWAY_CHECK_LOCKS /* as the core that is linked here: what is held is known */
#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/pace/watch.h"
#include "tests/unit/pace_world.h"

enum { STACK_BYTES = 256 * 1024, ENDLESS = 20000000 };

struct world world;

const struct world_settings world_usual = {
    .seed = 1,
    .wake_least_ns = 5 * US,
    .wake_most_ns = 120 * US,
    .sync_ns = 8 * US,
    .launch_ns = 3 * US,
    .latency_ns = 4 * US,
    .slice_ns = 2 * MS,
    .record_ns = 1 * US,
    .query_ns = 300,
    .concurrency = 4,
    .queue = 1024,
};

/* Kept between worlds: nobody runs on them then. */
static void *stack[WORLD_THREADS];
static uint64_t calls_at_once, last_now;

/* --- chance: splitmix64 --- */

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t random_between(uint64_t *state, uint64_t least, uint64_t most)
{
	return most > least ? least + random_next(state) % (most - least + 1) : least;
}

/* --- who acts next: a heap, by time and then in order of appointment --- */

static bool is_before(const struct actor *a, const struct actor *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put(struct actor *actor, int i)
{
	world.queue[i] = actor;
	actor->place = i + 1;
}

static void sift(struct actor *actor, int i)
{
	while (i > 0 && is_before(actor, world.queue[(i - 1) / 2])) {
		put(world.queue[(i - 1) / 2], i);
		i = (i - 1) / 2;
	}
	for (;;) {
		int child = 2 * i + 1;

		if (child + 1 < world.queued &&
		    is_before(world.queue[child + 1], world.queue[child]))
			child++;
		if (child >= world.queued || !is_before(world.queue[child], actor))
			break;
		put(world.queue[child], i);
		i = child;
	}
	put(actor, i);
}

void world_cancel(struct actor *actor)
{
	int i = actor->place - 1;

	if (i < 0)
		return;
	actor->place = 0;
	if (i != --world.queued)
		sift(world.queue[world.queued], i);
}

static void appoint(struct actor *actor, uint64_t at)
{
	actor->at = at > world.now ? at : world.now;
	actor->order = world.order++;
	sift(actor, actor->place ? actor->place - 1 : world.queued++);
}

void world_appoint(struct actor *actor, uint64_t at, void (*act)(struct actor *))
{
	if ((size_t)world.queued == sizeof(world.queue) / sizeof(*world.queue))
		world_fail("too many appointments");
	actor->act = act;
	appoint(actor, at);
}

/* --- threads --- */

static void switch_to(struct thread *next)
{
	struct thread *from = world.running;

	world.running = next;
	coroutine_switch(&from->coroutine, &next->coroutine);
}

/* Runs the world until it is this thread's time: devices on this stack, other threads on theirs. */
static void pass_time(struct thread *self)
{
	for (;;) {
		struct actor *actor = world.queue[0];
		struct thread *thread;

		if (!world.queued)
			world_fail("nothing will ever happen");
		world_cancel(actor);
		if (actor->at != world.now) {
			world.now = actor->at;
			calls_at_once = 0;
		} else if (++calls_at_once > ENDLESS) {
			world_fail("time stands still");
		}
		world.events++;
		if (actor->act) {
			actor->act(actor);
			continue;
		}
		thread = (struct thread *)actor;
		if (thread->process && thread->process->is_stopped) {
			thread->is_due = true;
			continue;
		}
		if (thread != self)
			switch_to(thread);
		return;
	}
}

static uint64_t wake_delay(struct thread *t)
{
	const struct world_settings *w = &world.settings;
	uint64_t late_ns = 0;

	/* Drawn only where it is asked for, so that other worlds stay as they are. */
	if (w->late_one_in && random_next(&t->random) % w->late_one_in == 0)
		late_ns = random_between(&t->random, 0, w->late_ns);
	return late_ns + random_between(&t->random, w->wake_least_ns, w->wake_most_ns);
}

static void block(const char *doing)
{
	struct thread *self = world.running;

	if (locks_held.count)
		world_fail("a thread waits while it holds a lock");
	self->doing = doing;
	self->since = world.now;
	pass_time(self);
	self->doing = "runs";
	self->word = NULL;
	self->is_ready = NULL;
}

static void pay_host_time(void)
{
	struct thread *self = world.running;
	uint64_t owed = self->owed_ns;

	if (!owed)
		return;
	self->owed_ns = 0;
	appoint(&self->actor, world.now + owed);
	block("computes");
}

void thread_work(uint64_t ns)
{
	world.running->owed_ns += ns;
	pay_host_time();
}

void thread_sleep_until(uint64_t at)
{
	pay_host_time();
	appoint(&world.running->actor, at + wake_delay(world.running));
	block("sleeps");
}

void thread_wait_for(const char *doing, struct tenant *tenant, bool (*is_ready)(void *), void *of)
{
	struct thread *self = world.running;

	pay_host_time();
	while (!is_ready(of)) {
		self->ready_tenant = tenant;
		self->ready_of = of;
		self->is_ready = is_ready;
		block(doing);
	}
}

void threads_look(struct tenant *tenant)
{
	for (int i = 0; i < world.threads; i++) {
		struct thread *t = &world.thread[i];

		if (t->is_ready && t->ready_tenant == tenant && !t->actor.place && !t->is_due &&
		    t->is_ready(t->ready_of))
			appoint(&t->actor, world.now + world.settings.sync_ns);
	}
}

void thread_wait_word(const char *doing, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
	struct thread *self = world.running;

	self->owed_ns += 500;
	pay_host_time();
	if (*word != seen || deadline <= world.now)
		return;
	self->word = word;
	if (deadline != UINT64_MAX)
		appoint(&self->actor, deadline + wake_delay(self));
	block(doing);
}

void threads_wake_word(_Atomic uint32_t *word)
{
	for (int i = 0; i < world.threads; i++) {
		struct thread *t = &world.thread[i];
		uint64_t at;

		if (t->word != word || t->is_due)
			continue;
		at = world.now + wake_delay(t);
		if (!t->actor.place || at < t->actor.at)
			appoint(&t->actor, at);
		t->word = NULL; /* woken once */
	}
}

static void run_thread(void)
{
	struct thread *self = world.running;

	self->doing = "runs";
	self->body(self->argument);
	if (locks_held.count)
		world_fail("a thread ends while it holds a lock");
	self->ended = true;
	self->doing = "has ended";
	pass_time(self);
	abort();
}

struct thread *thread_begin(struct process *process, const char *name, void (*body)(void *),
                            void *argument)
{
	struct thread *t = &world.thread[world.threads];

	if (world.threads == WORLD_THREADS)
		world_fail("too many threads");
	if (!stack[world.threads])
		stack[world.threads] = malloc(STACK_BYTES);
	*t = (struct thread){.index = world.threads,
	                     .name = name,
	                     .process = process,
	                     .body = body,
	                     .argument = argument,
	                     .doing = "is to begin"};
	t->random = world.settings.seed * 1000003 + (uint64_t)world.threads;
	coroutine_make(&t->coroutine, stack[world.threads], STACK_BYTES, run_thread);
	world.threads++;
	appoint(&t->actor, world.now);
	return t;
}

void threads_of_process_end(struct process *process)
{
	for (int i = 0; i < world.threads; i++) {
		struct thread *t = &world.thread[i];

		if (t->process != process)
			continue;
		world_cancel(&t->actor);
		t->word = NULL;
		t->is_ready = NULL;
		t->ended = true;
		t->doing = "was killed";
	}
}

void threads_of_process_go_on(struct process *process)
{
	for (int i = 0; i < world.threads; i++) {
		struct thread *t = &world.thread[i];

		if (t->process == process && t->is_due) {
			t->is_due = false;
			appoint(&t->actor, world.now + wake_delay(t));
		}
	}
}

/* --- what core/pace sees --- */

static uint64_t clock_world_now(void)
{
	if (world.now != last_now) {
		last_now = world.now;
		calls_at_once = 0;
	} else if (++calls_at_once > ENDLESS) {
		world_fail("a thread spins");
	}
	return world.now;
}

static void clock_world_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
	world_trace("waits for %.3f ms",
	            deadline > world.now ? (double)(deadline - world.now) / 1e6 : 0.0);
	thread_wait_word("waits in the pacer", word, seen, deadline);
	process_enter();
	world_trace("goes on");
}

static void clock_world_wake(_Atomic uint32_t *word)
{
	if (word == &watch_called) {
		process_call_watcher();
		return;
	}
	atomic_fetch_add(word, 1);
	world.running->owed_ns += 500;
	threads_wake_word(word);
}

static const struct clock clock_of_world = {
    .now = clock_world_now, .wait = clock_world_wait, .wake = clock_world_wake};

pthread_t __real_pthread_self(void);
int __wrap_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
pthread_t __wrap_pthread_self(void);

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *deadline)
{
	(void)condition, (void)mutex, (void)deadline;
	world_fail("a thread waits past the world's clock");
}

pthread_t __wrap_pthread_self(void)
{
	return world.running ? (pthread_t)(uintptr_t)world.running : __real_pthread_self();
}

/* --- the world --- */

void world_trace(const char *format, ...)
{
	va_list arguments;

	if (!world.settings.trace)
		return;
	fprintf(stderr, "%12.6f ms  ", (double)world.now / 1e6);
	if (world.running->index && !world.on_device)
		fprintf(stderr,
		        "%d.%s: ", world.running->process ? world.running->process->index : -1,
		        world.running->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void world_tell_threads(void)
{
	for (int i = 1; i < world.threads; i++) {
		struct thread *t = &world.thread[i];

		fprintf(stderr, "  process %d, %s: %s since %.6f s%s\n",
		        t->process ? t->process->index : -1, t->name, t->doing,
		        (double)t->since / 1e9,
		        t->process && t->process->is_stopped ? ", stopped" : "");
	}
}

void world_fail(const char *why)
{
	fprintf(stderr, "at %.6f s, seed %llu: %s\n", (double)world.now / 1e9,
	        (unsigned long long)world.settings.seed, why);
	world_tell_threads();
	abort();
}

void world_misuse(const char *what)
{
	if (!world.misuse++)
		world.misused = what;
	world_trace("misuse: %s", what);
}

void world_start(const struct world_settings *settings)
{
	world = (struct world){.settings = *settings, .now = S};
	world.threads = 1;
	world.thread[0] = (struct thread){.name = "test", .doing = "runs"};
	coroutine_adopt(&world.thread[0].coroutine);
	world.running = &world.thread[0];
	last_now = calls_at_once = 0;
	devices_start();
	driver_start();
	processes_start();
	clock_in_use = &clock_of_world;
}

void world_run_until(uint64_t at)
{
	appoint(&world.running->actor, at);
	block("looks on");
}

void world_end(void)
{
	clock_in_use = &clock_of_kernel;
	processes_end();
	driver_end();
	devices_end();
	world.running = NULL;
}
