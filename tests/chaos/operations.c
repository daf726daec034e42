/* SPDX-License-Identifier: MIT */
/* The operations and how often each is drawn. */
#include "tests/chaos/operations.h"

static const struct operation operations[] = {
    {"allocate", 22, do_allocate},
    {"managed", 4, do_managed},
    {"move managed", 3, do_move_managed},
    {"free", 16, do_free},
    {"free at work", 4, do_free_at_work},
    {"verify", 12, do_verify},
    {"add", 14, do_add},
    {"copy", 10, do_copy},
    {"refill", 6, do_refill},
    {"host memory", 3, do_host_memory},
    {"wait", 3, do_wait},
    {"virtual", 8, do_virtual},
    {"remap", 3, do_remap},
    {"send", 3, do_send},
    {"receive", 4, do_receive},
    {"give", 3, do_give},
    {"open", 4, do_open},
    {"pool", 10, do_pool},
    {"trim", 2, do_pool_trim},
    {"change pool", 1, do_pool_change},
    {"capture", 5, do_capture},
    {"replay", 8, do_replay},
    {"graph memory", 2, do_graph_memory},
    {"fork", 2, do_fork},
    {"child", 1, do_child},
    {"exec", 1, do_exec},
    {"thread", 2, do_thread},
    {"context", 2, do_context},
    {"module", 2, do_module},
    {"streams", 3, do_streams},
};

const struct operation *operation_at(struct dice *dice)
{
	int total = 0, drawn, i = 0;

	for (size_t n = 0; n < sizeof(operations) / sizeof(*operations); n++)
		total += operations[n].weight;
	drawn = (int)below(dice, (uint32_t)total);
	while ((drawn -= operations[i].weight) >= 0)
		i++;
	return &operations[i];
}
