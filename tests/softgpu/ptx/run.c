/* SPDX-License-Identifier: MIT */
/*
 * ptx_run(): a grid from its launch to its end, and the threads that share its blocks.
 *
 * The caller's thread begins alone. When the first stretch of work is done and there are blocks
 * left, it asks for helpers, so that a short kernel pays for none. Kernels with results that depend
 * on the order of their blocks (ptx_function.serial) and cooperative ones stay on one thread.
 * poll() is called on the caller's thread only; while it is in there, the helpers wait.
 */
#include "machine.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_COOPERATIVE = 1024, /* blocks */
	ALONE = 2048,           /* warp instructions before helpers are worth their start */
	IDLE_POLL_NS = 100000,  /* how often the caller polls while it waits for helpers */
};

/* --- what may stop a worker --- */

__attribute__((noreturn)) static void leave(struct worker *k)
{
	fault_unguard();
	k->status = PTX_STOPPED;
	siglongjmp(k->failed, 1);
}

/* True: stop. */
static bool poll(struct grid *g)
{
	if (!g->launch->poll)
		return false;
	/* No lock is held meanwhile: poll() gives the device to others and takes it again. */
	__atomic_or_fetch(&g->signals, SIGNAL_PAUSE, __ATOMIC_RELAXED);
	bool stop = g->launch->poll(g->launch->poll_cookie) != 0;
	pthread_mutex_lock(&g->pause);
	__atomic_and_fetch(&g->signals, ~(uint32_t)SIGNAL_PAUSE, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&g->resume);
	pthread_mutex_unlock(&g->pause);
	return stop;
}

static void ask_for_help(struct grid *g);

void worker_look_up(struct worker *k)
{
	struct grid *g = k->grid;
	uint32_t signals = __atomic_load_n(&g->signals, __ATOMIC_RELAXED);
	if (signals & SIGNAL_STOP)
		leave(k);
	if (signals & SIGNAL_PAUSE && !k->caller) {
		pthread_mutex_lock(&g->pause);
		while (__atomic_load_n(&g->signals, __ATOMIC_RELAXED) & SIGNAL_PAUSE)
			pthread_cond_wait(&g->resume, &g->pause);
		pthread_mutex_unlock(&g->pause);
	}
	if (k->executed < k->look_up || !k->caller)
		return;
	k->look_up = k->executed + g->poll_after;
	fault_unguard();
	if (!g->asked)
		ask_for_help(g);
	if (poll(g))
		leave(k);
	fault_guard(k);
}

void worker_rest(struct worker *k, uint64_t until)
{
	const struct ptx_launch *launch = k->grid->launch;
	fault_unguard();
	launch->rest(launch->poll_cookie, until);
	fault_guard(k);
}

/* --- threads --- */

/* Stops all workers; what the first of them says is the grid's. */
static void end_grid(struct grid *g, enum ptx_status status, const struct ptx_fault *fault)
{
	pthread_mutex_lock(&g->lock);
	if (g->status == PTX_OK) {
		g->status = status;
		memmove(g->fault, fault, sizeof *fault);
	}
	pthread_mutex_unlock(&g->lock);
	__atomic_or_fetch(&g->signals, SIGNAL_STOP, __ATOMIC_RELAXED);
}

/* Here faults come back to. */
static void attempt(struct worker *k)
{
	struct grid *g = k->grid;
	if (!sigsetjmp(k->failed, 1)) {
		fault_guard(k);
		worker_run(k);
		fault_unguard();
		return;
	}
	if (k->status == PTX_ILLEGAL_ADDRESS && !k->fault.message[0])
		fault_locate(k);
	end_grid(g, k->status, &k->fault);
}

static void help(void *cookie)
{
	struct grid *g = cookie;
	struct worker *k = &g->workers[__atomic_fetch_add(&g->worker_count, 1, __ATOMIC_RELAXED)];
	fesetenv(FE_DFL_ENV);
	k->grid = g;
	k->look_up = UINT64_MAX;
	attempt(k);
}

/* Once, by the caller, at its first look up. */
static void ask_for_help(struct grid *g)
{
	uint64_t next = __atomic_load_n(&g->next_block, __ATOMIC_RELAXED);
	uint64_t left = next < g->total_blocks ? g->total_blocks - next : 0;
	uint32_t most = g->function->module->threads - 1;
	g->asked = true;
	if (g->function->serial || g->launch->cooperative)
		return;
	g->offer.run = help;
	g->offer.cookie = g;
	g->offer.wanted = left < most ? (uint32_t)left : most;
	helpers_offer(&g->offer);
}

/* The caller has nothing left to run, but still polls. */
static void wait_for_helpers(struct grid *g)
{
	while (g->asked && !helpers_withdraw(&g->offer, IDLE_POLL_NS)) {
		if (__atomic_load_n(&g->signals, __ATOMIC_RELAXED) & SIGNAL_STOP || !poll(g))
			continue;
		end_grid(g, PTX_STOPPED, g->fault);
	}
}

/* --- launches --- */

static enum ptx_status refuse(const struct ptx_function *f, struct ptx_fault *fault,
                              enum ptx_status status, const char *message)
{
	fault->function = f->info.name;
	snprintf(fault->message, sizeof fault->message, "%s", message);
	return status;
}

static void free_grid(struct grid *g)
{
	for (uint32_t i = 0; i < MAX_WORKERS; i++)
		if (g->workers[i].grid)
			worker_free(&g->workers[i]);
	pthread_mutex_destroy(&g->pause);
	pthread_cond_destroy(&g->resume);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

enum ptx_status ptx_run(const struct ptx_function *f, const struct ptx_launch *launch,
                        struct ptx_fault *fault)
{
	memset(fault, 0, sizeof *fault);
	uint64_t threads = 1, blocks = 1;
	for (int i = 0; i < 3; i++) {
		if (launch->block[i] > 1024 || launch->grid[i] > INT32_MAX)
			return refuse(f, fault, PTX_NOT_SUPPORTED, "the launch is too large");
		threads *= launch->block[i];
		blocks = __builtin_mul_overflow(blocks, launch->grid[i], &blocks) ? 0 : blocks;
	}
	if (!threads || !blocks)
		return refuse(f, fault, PTX_NOT_SUPPORTED, "the launch has no threads");
	if (threads > LANES * MAX_WARPS)
		return refuse(f, fault, PTX_NOT_SUPPORTED, "more than 1024 threads in a block");
	if (launch->cooperative && blocks > MAX_COOPERATIVE)
		return refuse(f, fault, PTX_NOT_SUPPORTED,
		              "a cooperative grid of more than 1024 blocks");
	if (launch->dynamic_shared > 1 << 20)
		return refuse(f, fault, PTX_NO_MEMORY, "more than 1 MiB of shared memory");

	struct grid *g = calloc(1, sizeof *g);
	if (!g)
		return refuse(f, fault, PTX_NO_MEMORY, "no host memory for the grid");
	g->function = f;
	g->launch = launch;
	g->memory = &f->module->memory;
	g->alu = f->module->alu;
	g->fault = fault;
	g->parameters = launch->parameters;
	g->threads = (uint32_t)threads;
	g->warps = (uint32_t)(threads + LANES - 1) / LANES;
	g->total_blocks = blocks;
	uint32_t align = f->module->dynamic_align;
	g->dynamic_shared_at = (f->info.shared_bytes + align - 1) & -align;
	g->shared_bytes = launch->dynamic_shared ? g->dynamic_shared_at + launch->dynamic_shared
	                                         : f->info.shared_bytes;
	g->total_shared = g->shared_bytes;
	g->reserved_shared_at = (g->shared_bytes + 15) & ~15u;
	if (f->module->uses_reserved_shared)
		g->shared_bytes = g->reserved_shared_at + RESERVED_SHARED;
	g->poll_after =
	    launch->poll && launch->poll_instructions ? launch->poll_instructions : 1u << 20;
	pthread_mutex_init(&g->pause, NULL);
	pthread_cond_init(&g->resume, NULL);
	pthread_mutex_init(&g->lock, NULL);
	/* The caller may have other ideas of rounding, of subnormals, or of traps. */
	fenv_t environment;
	fegetenv(&environment);
	fesetenv(FE_DFL_ENV);
	struct worker *k = &g->workers[0];
	k->grid = g;
	k->caller = true;
	g->worker_count = 1;
	k->look_up = g->poll_after < ALONE ? g->poll_after : ALONE;
	attempt(k);
	wait_for_helpers(g);
	fesetenv(&environment);
	enum ptx_status status = g->status;
	free_grid(g);
	return status;
}
