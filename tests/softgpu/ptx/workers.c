/* SPDX-License-Identifier: MIT */
/*
 * A worker: one thread that takes the grid's blocks in their order and gives their warps turns.
 *
 * A worker has one block at a time. It takes another block beside it only when all warps of its
 * block do nothing but poll memory for long. The block then waits for one that has not begun, and
 * that would be resident on hardware, too. All blocks of a cooperative grid are there from the
 * start.
 */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_RESIDENT = 65536, /* threads of a worker's blocks, unless one block is larger */
	WAITING_ROUNDS = 128, /* turns of all warps, and none but polled */
};

static void free_warp(struct warp *w)
{
	while (w->all_frames) {
		struct frame *next = w->all_frames->next_of_warp;
		free(w->all_frames->registers);
		free(w->all_frames);
		w->all_frames = next;
	}
	free(w->special);
	free(w->local);
}

void worker_free(struct worker *k)
{
	while (k->blocks) {
		struct block *block = k->blocks;
		k->blocks = block->next;
		for (uint32_t i = 0; block->warps && i < k->grid->warps; i++)
			free_warp(&block->warps[i]);
		free(block->warps);
		free(block->shared);
		free(block);
	}
}

/* Room for one more resident block; false: no memory. */
static bool add_block(struct worker *k)
{
	struct grid *g = k->grid;
	struct block *block = calloc(1, sizeof *block);
	if (!block)
		return false;
	block->worker = k;
	block->grid = g;
	block->warps = calloc(g->warps, sizeof *block->warps);
	block->shared = calloc(1, g->shared_bytes + 64);
	block->next = k->blocks;
	k->blocks = block;
	k->block_count++;
	return block->warps && block->shared;
}

/* False: the grid has none left. */
static bool start_block(struct block *block)
{
	struct grid *g = block->grid;
	const uint32_t *size = g->launch->grid;
	uint64_t index = __atomic_fetch_add(&g->next_block, 1, __ATOMIC_RELAXED);
	if (index >= g->total_blocks)
		return false;
	block->id[0] = (uint32_t)(index % size[0]);
	block->id[1] = (uint32_t)(index / size[0] % size[1]);
	block->id[2] = (uint32_t)(index / size[0] / size[1]);
	block->live = g->threads;
	memset(block->barriers, 0, sizeof block->barriers);
	memset(block->shared, 0, g->shared_bytes);
	for (uint32_t i = 0; i < g->warps; i++)
		warp_start(&block->warps[i], block, i);
	block->active = true;
	return true;
}

/* A warp that sleeps on is noted for the worker's rest. */
static bool sleeps(struct warp *w)
{
	const struct ptx_launch *launch = w->grid->launch;
	struct worker *k = w->worker;
	w->asleep = w->asleep && launch->clock(launch->poll_cookie) < w->slept_until;
	if (!w->asleep)
		k->next_wake = 0;
	else if (w->slept_until < k->next_wake)
		k->next_wake = w->slept_until;
	return w->asleep;
}

static bool can_run(const struct warp *w)
{
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].state == SPLIT_READY)
			return true;
	return false;
}

static bool force_block(struct block *block)
{
	bool forced = false;
	for (uint32_t i = 0; i < block->grid->warps; i++) {
		block->worker->running = &block->warps[i];
		forced |= warp_force(&block->warps[i]);
	}
	return forced;
}

/* One turn for each warp; true when they all only waited. */
static bool run_block(struct block *block)
{
	bool moved = false, waiting = true;
	for (uint32_t i = 0; i < block->grid->warps; i++) {
		struct warp *w = &block->warps[i];
		if (!can_run(w))
			continue;
		moved = true;
		if (sleeps(w))
			continue;
		warp_run(w);
		waiting &= w->polled && !w->budget;
		worker_look_up(block->worker);
	}
	if (!block->live) {
		block->active = false;
	} else if (!moved && !force_block(block)) {
		struct warp *w = &block->warps[0];
		while (!w->live)
			w++;
		w->insn = &w->splits[0].frame->function->code[w->splits[0].at - 1];
		fault_raise(w, PTX_ILLEGAL_INSTRUCTION, (uint32_t)__builtin_ctz(w->live), 0, 0,
		            false, "deadlock: the block's threads wait at different barriers");
	}
	return moved && waiting;
}

static void no_memory(struct worker *k)
{
	k->status = PTX_NO_MEMORY;
	k->fault.function = k->grid->function->info.name;
	strcpy(k->fault.message, "no host memory for the blocks");
	fault_unguard();
	siglongjmp(k->failed, 1);
}

void worker_run(struct worker *k)
{
	struct grid *g = k->grid;
	uint64_t wanted = g->launch->cooperative ? g->total_blocks : 1;
	uint32_t waited = 0;
	for (;;) {
		bool active = false, waiting = true;
		k->next_wake = UINT64_MAX;
		while (k->block_count < wanted)
			if (!add_block(k))
				no_memory(k);
		for (struct block *block = k->blocks; block; block = block->next) {
			if (!block->active && !start_block(block))
				continue;
			active = true;
			waiting &= run_block(block);
		}
		if (!active)
			return;
		if (k->next_wake && k->next_wake != UINT64_MAX)
			worker_rest(k, k->next_wake);
		waited = waiting ? waited + 1 : 0;
		if (waited > WAITING_ROUNDS && (wanted + 1) * g->threads <= MAX_RESIDENT &&
		    __atomic_load_n(&g->next_block, __ATOMIC_RELAXED) < g->total_blocks) {
			wanted++;
			waited = 0;
		}
	}
}
