/* SPDX-License-Identifier: MIT */
/*
 * The operations of a worker. Each draws all its numbers from the dice of its step, in any state.
 */
#ifndef CHAOS_OPERATIONS_H
#define CHAOS_OPERATIONS_H

#include "tests/chaos/worker.h"

struct block;

struct operation {
	const char *name;
	int weight;
	void (*run)(struct dice *dice);
};

const struct operation *operation_at(struct dice *dice);

/* memory.c */
void do_allocate(struct dice *dice);
void do_managed(struct dice *dice);
void do_move_managed(struct dice *dice);
void do_free(struct dice *dice);
void do_free_at_work(struct dice *dice);
void do_verify(struct dice *dice);
void do_add(struct dice *dice);
void do_copy(struct dice *dice);
void do_refill(struct dice *dice);
void do_host_memory(struct dice *dice);
void do_wait(struct dice *dice);
/* virtual.c */
void do_virtual(struct dice *dice);
void do_remap(struct dice *dice);
void do_send(struct dice *dice);
void do_receive(struct dice *dice);
void virtual_free(struct block *block);
void virtual_begin(void);
/* ipc.c */
void do_give(struct dice *dice);
void do_open(struct dice *dice);
void ipc_close(struct block *block);
/* pools.c */
void do_pool(struct dice *dice);
void do_pool_trim(struct dice *dice);
void do_pool_change(struct dice *dice);
/* graphs.c */
void do_capture(struct dice *dice);
void do_replay(struct dice *dice);
void do_graph_memory(struct dice *dice);
void graphs_forget(uint64_t number);
void graphs_end(void);
/* process.c */
void do_fork(struct dice *dice);
void do_child(struct dice *dice);
void do_exec(struct dice *dice);
void do_thread(struct dice *dice);
void do_context(struct dice *dice);
void do_module(struct dice *dice);
void do_streams(struct dice *dice);

#endif
