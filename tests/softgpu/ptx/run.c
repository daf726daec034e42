/* ptx_run(): the blocks of a grid, and the turns of their warps. */
#include "alu.h"
#include "machine.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RESIDENT = 1024 };

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

static void free_grid(struct grid *g)
{
	for (uint32_t i = 0; g->blocks && i < g->block_count; i++) {
		for (uint32_t k = 0; g->blocks[i].warps && k < g->warps; k++)
			free_warp(&g->blocks[i].warps[k]);
		free(g->blocks[i].warps);
		free(g->blocks[i].shared);
	}
	free(g->blocks);
	free(g);
}

/* All blocks of a cooperative grid are there at once; else one after the other. */
static bool allocate_blocks(struct grid *g)
{
	g->block_count = g->launch->cooperative ? (uint32_t)g->total_blocks : 1;
	g->blocks = calloc(g->block_count, sizeof *g->blocks);
	for (uint32_t i = 0; g->blocks && i < g->block_count; i++) {
		struct block *block = &g->blocks[i];
		block->grid = g;
		block->warps = calloc(g->warps, sizeof *block->warps);
		block->shared = calloc(1, g->shared_bytes + 64);
		if (!block->warps || !block->shared)
			return false;
	}
	return g->blocks != NULL;
}

static void start_block(struct grid *g, struct block *block)
{
	const uint32_t *size = g->launch->grid;
	uint64_t index = g->next_block++;
	block->id[0] = (uint32_t)(index % size[0]);
	block->id[1] = (uint32_t)(index / size[0] % size[1]);
	block->id[2] = (uint32_t)(index / size[0] / size[1]);
	block->live = g->threads;
	memset(block->barriers, 0, sizeof block->barriers);
	memset(block->shared, 0, g->shared_bytes);
	for (uint32_t i = 0; i < g->warps; i++)
		warp_start(&block->warps[i], block, i);
	block->active = true;
}

static bool can_run(const struct warp *w)
{
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].state == SPLIT_READY)
			return true;
	return false;
}

static void poll(struct grid *g)
{
	if (g->executed < g->poll_after)
		return;
	g->executed = 0;
	if (!g->launch->poll)
		return;
	fault_unguard();
	if (g->launch->poll(g->launch->poll_cookie)) {
		g->status = PTX_STOPPED;
		siglongjmp(g->failed, 1);
	}
	fault_guard(g);
}

static bool force_block(struct grid *g, struct block *block)
{
	bool forced = false;
	for (uint32_t i = 0; i < g->warps; i++) {
		g->running = &block->warps[i];
		forced |= warp_force(&block->warps[i]);
	}
	return forced;
}

/* One turn for each warp. */
static void run_block(struct grid *g, struct block *block)
{
	bool moved = false;
	for (uint32_t i = 0; i < g->warps; i++) {
		struct warp *w = &block->warps[i];
		if (!can_run(w))
			continue;
		moved = true;
		warp_run(w);
		poll(g);
	}
	if (!block->live) {
		block->active = false;
	} else if (!moved && !force_block(g, block)) {
		struct warp *w = &block->warps[0];
		while (!w->live)
			w++;
		w->insn = &w->splits[0].frame->function->code[w->splits[0].at - 1];
		fault_raise(w, PTX_ILLEGAL_INSTRUCTION, (uint32_t)__builtin_ctz(w->live), 0, 0,
		            false, "deadlock: the block's threads wait at different barriers");
	}
}

static void run_grid(struct grid *g)
{
	for (uint32_t active = 1; active;) {
		active = 0;
		for (uint32_t i = 0; i < g->block_count; i++) {
			if (!g->blocks[i].active && g->next_block < g->total_blocks)
				start_block(g, &g->blocks[i]);
			if (g->blocks[i].active) {
				run_block(g, &g->blocks[i]);
				active++;
			}
		}
		if (g->next_block < g->total_blocks)
			active++;
	}
}

/* Here faults come back to; g->status says how it went. */
static void attempt(struct grid *g)
{
	if (!sigsetjmp(g->failed, 1)) {
		fault_guard(g);
		run_grid(g);
		fault_unguard();
	} else if (g->status == PTX_ILLEGAL_ADDRESS && !g->fault->message[0]) {
		fault_locate(g);
	}
}

static enum ptx_status refuse(const struct ptx_function *f, struct ptx_fault *fault,
                              enum ptx_status status, const char *message)
{
	fault->function = f->info.name;
	snprintf(fault->message, sizeof fault->message, "%s", message);
	return status;
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
	if (launch->cooperative && blocks > MAX_RESIDENT)
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
	g->poll_after =
	    launch->poll && launch->poll_instructions ? launch->poll_instructions : 1u << 20;
	/* The caller may have other ideas of rounding, of subnormals, or of traps. */
	fenv_t environment;
	fegetenv(&environment);
	fesetenv(FE_DFL_ENV);
	if (allocate_blocks(g))
		attempt(g);
	else
		g->status = refuse(f, fault, PTX_NO_MEMORY, "no host memory for the blocks");
	fesetenv(&environment);
	enum ptx_status status = g->status;
	free_grid(g);
	return status;
}
