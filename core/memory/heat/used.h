/* SPDX-License-Identifier: MIT */
/*
 * Use of memory by the program: launches, copies and descriptors, and graphs. All of it ends as
 * heat (heat.h).
 *
 * The memory of a graph is found when it is captured or a node gets its parameters. It is credited
 * to the graph, passed on to everything made of it, and touched again when that is launched.
 *
 * A graph or executable graph goes by its handle. Which stream a call is captured by is not asked:
 * what is met while captures are active is credited to each graph that comes out of them. Of a
 * graph with more than HEAT_GRAPH_RUNS runs the rest is used blindly. Thread-safe.
 */
#ifndef SPILLWAY_USED_H
#define SPILLWAY_USED_H

#include "core/memory/heat/heat.h"

/* --- samples: after the driver took the call, else the pointers are not to be trusted --- */

/* Looks at a kernel that was launched; CUfunction or CUkernel, parameters as for cuLaunchKernel. */
void heat_launched(CUfunction function, void **parameters, void **extra);
/* Looks at a copy or fill; addresses may be any. */
void heat_copied(const CUdeviceptr *addresses, size_t count);

/* --- looked at in any case --- */

/* Notes that a descriptor was made that hides this address. */
void heat_hide(CUdeviceptr address);

/* --- queries of a survey --- */

/*
 * Writes the first addresses of the runs that a launch's parameters lead to, or that an executable
 * graph uses, each once, and touches them. Returns how many; -1: not all are known, or there are
 * more than the room.
 */
int heat_uses_of_launch(CUfunction function, void **parameters, void **extra, CUdeviceptr *runs,
                        size_t room);
int heat_uses_of_graph(const void *graph, CUdeviceptr *runs, size_t room);

/* --- graphs --- */

enum { HEAT_GRAPH_RUNS = 4096 };

/* In place of a graph: whose it is is unknown, so it is used whenever one is launched. */
#define HEAT_ANY_GRAPH NULL

/* Ends a capture; graph: its result, NULL: nothing. */
void heat_graph_capture_ended(const void *graph);

/* Adds a kernel node, new or changed, to its graph or executable graph. */
void heat_graph_kernel(const void *graph, CUfunction function, void **parameters, void **extra);
/* Adds a copying or filling node; any address. */
void heat_graph_address(const void *graph, CUdeviceptr address);
/* Has `to` use the memory of `from` from now on: as well, or alone. */
void heat_graph_add(const void *to, const void *from);
void heat_graph_replace(const void *to, const void *from);
/* Forgets a graph that is destroyed. */
void heat_graph_forget(const void *graph);

/* Touches the memory of a launched executable graph. Sampled as launches are. */
void heat_graph_launched(const void *graph);

#endif
