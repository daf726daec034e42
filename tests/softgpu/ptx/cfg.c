/* SPDX-License-Identifier: MIT */
/*
 * Immediate post-dominators, by the iterative algorithm of Cooper, Harvey and Kennedy run on the
 * reversed graph.
 */
#include "cfg.h"

struct basic_block {
	uint32_t first, last; /* instructions */
	uint32_t *to;
	uint32_t to_count;
	uint32_t *from;
	uint32_t from_count;
	uint32_t order; /* reverse post-order from the exit; NONE: does not reach it */
	uint32_t meet;  /* immediate post-dominator, a block; NONE: not known yet */
};

struct graph {
	struct reader *r;
	struct insn *code;
	uint32_t count;
	struct table *tables;
	struct basic_block *blocks; /* the last one stands for the end of the function */
	uint32_t block_count;
	uint32_t *block_of; /* instruction -> block */
	uint32_t *sorted;   /* blocks in reverse post-order */
	uint32_t sorted_count;
};

static bool ends_block(const struct insn *in)
{
	return in->control == CONTROL_BRANCH || in->control == CONTROL_BRANCH_INDEX ||
	       in->control == CONTROL_EXIT || in->control == CONTROL_RETURN ||
	       in->control == CONTROL_TRAP;
}

static void make_blocks(struct graph *g)
{
	g->block_of = reader_scratch(g->r, (g->count + 1) * sizeof *g->block_of);
	for (uint32_t i = 0, block = 0; i < g->count; i++) {
		if (i && (g->code[i].control == CONTROL_JOIN || ends_block(&g->code[i - 1])))
			block++;
		g->block_of[i] = block;
		g->block_count = block + 1;
	}
	g->blocks = reader_scratch(g->r, (g->block_count + 1) * sizeof *g->blocks);
	for (uint32_t i = g->count; i-- > 0;)
		g->blocks[g->block_of[i]].first = i;
	for (uint32_t i = 0; i < g->count; i++)
		g->blocks[g->block_of[i]].last = i;
}

static void add_edge(struct graph *g, struct basic_block *from, uint32_t to)
{
	for (uint32_t i = 0; i < from->to_count; i++)
		if (from->to[i] == to)
			return;
	from->to[from->to_count++] = to;
	g->blocks[to].from_count++;
}

static void make_edges(struct graph *g)
{
	uint32_t end = g->block_count;
	for (uint32_t b = 0; b < end; b++) {
		struct basic_block *block = &g->blocks[b];
		const struct insn *in = &g->code[block->last];
		uint32_t most = 2;
		const struct table *table = NULL;
		if (in->control == CONTROL_BRANCH_INDEX) {
			table = &g->tables[in->target];
			most += table->count;
		}
		block->to = reader_scratch(g->r, most * sizeof *block->to);
		if (in->control == CONTROL_BRANCH)
			add_edge(g, block, g->block_of[in->target]);
		for (uint32_t i = 0; table && i < table->count; i++)
			add_edge(g, block, g->block_of[table->targets[i]]);
		/* Lanes that leave under a guard are taken off every join: no edge for them. */
		if (!ends_block(in) || in->guard != NONE)
			add_edge(g, block, b + 1);
		else if (in->control != CONTROL_BRANCH && !table)
			add_edge(g, block, end);
	}
	for (uint32_t b = 0; b <= end; b++) {
		g->blocks[b].from =
		    reader_scratch(g->r, g->blocks[b].from_count * sizeof(uint32_t));
		g->blocks[b].from_count = 0;
	}
	for (uint32_t b = 0; b < end; b++)
		for (uint32_t i = 0; i < g->blocks[b].to_count; i++) {
			struct basic_block *to = &g->blocks[g->blocks[b].to[i]];
			to->from[to->from_count++] = b;
		}
}

static void sort_from_exit(struct graph *g)
{
	struct visit {
		uint32_t block, next;
	} *stack = reader_scratch(g->r, (g->block_count + 1) * sizeof *stack);
	uint32_t depth = 0, place = g->block_count + 1;
	bool *seen = reader_scratch(g->r, g->block_count + 1);
	g->sorted = reader_scratch(g->r, (g->block_count + 1) * sizeof *g->sorted);
	for (uint32_t b = 0; b <= g->block_count; b++)
		g->blocks[b].order = g->blocks[b].meet = NONE;
	stack[depth++] = (struct visit){g->block_count, 0};
	seen[g->block_count] = true;
	while (depth) {
		struct visit *top = &stack[depth - 1];
		struct basic_block *block = &g->blocks[top->block];
		if (top->next < block->from_count) {
			uint32_t from = block->from[top->next++];
			if (!seen[from]) {
				seen[from] = true;
				stack[depth++] = (struct visit){from, 0};
			}
		} else {
			g->sorted[--place] = top->block;
			depth--;
		}
	}
	g->sorted_count = g->block_count + 1 - place;
	g->sorted += place;
	for (uint32_t i = 0; i < g->sorted_count; i++)
		g->blocks[g->sorted[i]].order = i;
}

static uint32_t common(const struct graph *g, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (g->blocks[a].order > g->blocks[b].order)
			a = g->blocks[a].meet;
		while (g->blocks[b].order > g->blocks[a].order)
			b = g->blocks[b].meet;
	}
	return a;
}

static void find_post_dominators(struct graph *g)
{
	uint32_t end = g->block_count;
	g->blocks[end].meet = end;
	for (bool changed = true; changed;) {
		changed = false;
		for (uint32_t i = 1; i < g->sorted_count; i++) {
			struct basic_block *block = &g->blocks[g->sorted[i]];
			uint32_t meet = NONE;
			for (uint32_t k = 0; k < block->to_count; k++) {
				uint32_t to = block->to[k];
				if (g->blocks[to].meet != NONE)
					meet = meet == NONE ? to : common(g, meet, to);
			}
			changed |= meet != block->meet;
			block->meet = meet;
		}
	}
	g->blocks[end].meet = NONE;
}

static void compact(struct graph *g, const bool *wanted)
{
	uint32_t *moved = reader_scratch(g->r, (g->count + 1) * sizeof *moved), kept = 0;
	for (uint32_t i = 0; i < g->count; i++) {
		moved[i] = kept;
		if (g->code[i].control != CONTROL_JOIN || wanted[i])
			g->code[kept++] = g->code[i];
	}
	for (uint32_t i = 0; i < kept; i++) {
		struct insn *in = &g->code[i];
		if (in->control == CONTROL_BRANCH)
			in->target = moved[in->target];
		if (in->control == CONTROL_BRANCH_INDEX)
			for (uint32_t k = 0; k < g->tables[in->target].count; k++) {
				uint32_t *target = &g->tables[in->target].targets[k];
				*target = moved[*target];
			}
		if (in->join != NONE)
			in->join = moved[in->join];
	}
	g->count = kept;
}

void cfg_place_joins(struct reader *r, struct insn *code, uint32_t *count, struct table *tables)
{
	struct graph g = {.r = r, .code = code, .count = *count, .tables = tables};
	bool *wanted = reader_scratch(r, *count);
	make_blocks(&g);
	make_edges(&g);
	sort_from_exit(&g);
	find_post_dominators(&g);
	for (uint32_t i = 0; i < g.count; i++) {
		struct insn *in = &code[i];
		bool divergent = (in->control == CONTROL_BRANCH && in->guard != NONE) ||
		                 in->control == CONTROL_BRANCH_INDEX;
		uint32_t meet = divergent ? g.blocks[g.block_of[i]].meet : NONE;
		if (meet == NONE || meet == g.block_count ||
		    code[g.blocks[meet].first].control != CONTROL_JOIN)
			continue;
		in->join = g.blocks[meet].first;
		wanted[in->join] = true;
	}
	compact(&g, wanted);
	*count = g.count;
}
