/* SPDX-License-Identifier: MIT */
/*
 * Graphs, and the capture of streams into them.
 *
 * graph     CUgraph; nodes and the edges between them
 * node      CUgraphNode; parameters as the application gave them, whatever they point to copied
 * exec      CUgraphExec; a graph of its own, a copy of the one it was made from
 * origin    serial number of what a node or graph is a copy of; serial numbers are never reused
 * lane      a hidden stream of an exec, for branches beside the one in the launching stream
 * capture   one capture sequence: a graph, the streams that are in it, and whether it still counts
 *
 * All under driver_lock.
 */
#ifndef SOFTGPU_GRAPH_H
#define SOFTGPU_GRAPH_H

#include "tests/softgpu/driver.h"

struct function;
struct graph_memory;
struct graph_exec;
struct conditional;

/* The part of its parameters that a copied kernel node keeps. */
struct kernel_arguments {
	size_t size;
	void *extra[5];
	void **pointers; /* into the block, one for each parameter */
	max_align_t block[];
};

/* A place in the queues: what was queued there up to now. */
struct point {
	struct stream *stream;
	uint64_t ticket;
};

struct graph_node {
	struct handle handle;
	struct graph *graph;
	uint64_t serial, origin;
	unsigned int id; /* within the graph, in order of creation */
	struct context *context;
	CUgraphNodeParams params;
	struct kernel_arguments *arguments;                          /* KERNEL */
	CUlaunchAttributeValue *attributes[CU_LAUNCH_ATTRIBUTE_MAX]; /* KERNEL; NULL: default */
	struct graph *child;                                         /* GRAPH */
	struct graph_memory *memory;                                 /* MEM_ALLOC, MEM_FREE */
	struct conditional *conditional;                             /* CONDITIONAL */
	struct graph **bodies;     /* CONDITIONAL: params.conditional.size */
	CUmemAccessDesc *accesses; /* MEM_ALLOC */
	bool by_cpu;               /* MEMCPY: made while both sides were memory of the host */
	bool disabled;
	struct node_set before, after;
	size_t rank;             /* scratch of sorting and searching */
	struct graph_node *pair; /* scratch of an update */
	struct point point;      /* scratch of a launch */
	UT_hash_handle by_origin;
	struct graph_node *prev, *next;
};

struct graph {
	struct handle handle;
	bool hidden; /* an exec's: its handle and its nodes' are unknown */
	uint64_t serial, origin;
	struct graph_node *nodes;
	size_t count;
	unsigned int last_id;
	struct graph_node *holder;   /* the child graph or conditional node it belongs to */
	struct capture *capture;     /* that is going into it */
	struct graph_exec *instance; /* the one a graph with memory or conditional nodes may have */
	struct user_reference *references;
	struct conditional *conditionals; /* handles made for it */
};

/* The i-th graph within a node: its child graph, or a body; NULL past the last. */
static inline struct graph *node_within(const struct graph_node *node, unsigned int i)
{
	if (node->bodies)
		return i < node->params.conditional.size ? node->bodies[i] : NULL;
	return i == 0 ? node->child : NULL;
}

/* node_set.c: nodes with the data of an edge to each */
size_t node_set_find(const struct node_set *set, const struct graph_node *node);
bool node_set_add(struct node_set *set, struct graph_node *node, const CUgraphEdgeData *edge);
void node_set_remove(struct node_set *set, size_t index);
bool node_set_copy(struct node_set *to, const struct node_set *from);
void node_set_clear(struct node_set *set);
/* Answers a query of nodes and edges as the calls do; `nodes` NULL asks for the count only. */
CUresult node_set_answer(const struct node_set *set, CUgraphNode *nodes, CUgraphEdgeData *edges,
                         size_t *count);
bool edge_is_plain(const CUgraphEdgeData *edge);

/* graph.c */
struct graph *graph_new(bool hidden);
void graph_free(struct graph *graph);
struct graph *graph_find(CUgraph handle);
/* A copy with the parameters as they are; nothing is checked again. */
CUresult graph_copy(const struct graph *from, bool hidden, struct graph **out);
struct graph_node *node_find(CUgraphNode handle);
/* A hidden graph with a copy of the node alone. */
CUresult graph_of_copy(const struct graph_node *node, struct graph **out);
/* Adds a node, which takes the parameters as node_assign() does. Wrong dependencies are refused. */
CUresult graph_add(struct graph *graph, const CUgraphNode *dependencies,
                   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params,
                   struct context *context, struct graph_node **out);
CUresult graph_connect(struct graph_node *from, struct graph_node *to, const CUgraphEdgeData *edge);
/* The nodes so that each comes after what it depends on; NULL with a node on a circle, or NULL. */
struct graph_node **graph_sort(const struct graph *graph, struct graph_node **offender);
bool graph_has_memory_nodes(const struct graph *graph);
/* Returns whether the graph is one, or part of one, that may not lose nodes and edges now. */
bool graph_is_fixed(const struct graph *graph);

/* graph_node.c: what nodes hold */
/* Checks and copies parameters into the node, in place of those it has. */
CUresult node_assign(struct graph_node *node, const CUgraphNodeParams *params,
                     struct context *context);
/* The same from another node, unchecked. */
CUresult node_copy(struct graph_node *node, const struct graph_node *from);
void node_clear(struct graph_node *node);
/* The function of a kernel node, which may have been unloaded since. */
CUresult node_function(const struct graph_node *node, struct function **function);
bool node_is_cooperative(const struct graph_node *node);
CUresult node_set_attribute(struct graph_node *node, CUkernelNodeAttrID id,
                            const CUlaunchAttributeValue *value);
CUresult node_copy_attributes(struct graph_node *node, const struct graph_node *from);
/* Returns whether an instantiated node may take these parameters. */
CUgraphExecUpdateResult node_may_become(const struct graph_node *node,
                                        const struct graph_node *other);

/* graph_exec.c */
#define LANES 8 /* at most, for each device */
struct lanes {
	struct stream *of[MAX_DEVICES][LANES];
	unsigned int next;
};

struct graph_exec {
	struct handle handle;
	int references; /* the handle's and one of each launch that is not over */
	struct graph *graph;
	struct graph *source; /* the graph that it keeps from having another */
	unsigned long long flags;
	struct graph_node *by_origin;
	struct lanes lanes;
	struct point last; /* the end of its latest launch */
};
void exec_unreference(struct graph_exec *exec);
struct graph_exec *exec_find(CUgraphExec handle);

/* graph_launch.c */
CUresult exec_launch(struct graph_exec *exec, struct stream *stream);
void lanes_close(struct lanes *lanes);

/* graph_conditional.c */
bool graph_has_conditionals(const struct graph *graph);
/* Its handles are gone with the graph, where no node has them. */
void conditionals_drop(struct graph *graph);
/* Returns whether each handle that was made for the graph has a node. */
bool conditionals_are_used(const struct graph *graph);
/* Returns whether the node may be where it is: a body takes few types, of one context. */
bool node_fits_body(const struct graph_node *node);
/* What a node holds, by its parameters; by another node; nothing any more. */
CUresult conditional_assign(struct graph_node *node);
CUresult conditional_copy(struct graph_node *node, const struct graph_node *from);
void conditional_clear(struct graph_node *node);
/* The bodies and the handle know this node from now on. */
void conditional_belongs_to(struct graph_node *node);
/* A launch begins: the handles get their initial values, at all depths. */
void conditionals_begin(const struct graph *graph);
/* The body that is to run by the value of now; NULL: none. */
struct graph *conditional_choose(const struct graph_node *node);
struct lanes *conditional_lanes(const struct graph_node *node);

/* graph_memory.c: what memory nodes stand for */
CUresult graph_memory_new(const struct graph *graph, struct context *context,
                          CUDA_MEM_ALLOC_NODE_PARAMS_v2 *what, struct graph_memory **out);
/* The memory that a free node of this graph may free. */
CUresult graph_memory_for_free(const struct graph *graph, CUdeviceptr address,
                               struct graph_memory **memory);
void graph_memory_reference(struct graph_memory *memory);
void graph_memory_unreference(struct graph_memory *memory);
/* Before a launch: takes physical memory, and refuses what an earlier launch left allocated. */
CUresult graph_memory_prepare(struct graph_memory *memory, bool may_be_allocated);
bool graph_memory_is_allocated(const struct graph_memory *memory);
bool graph_memory_freed_in_graph(const struct graph_memory *memory);
/* Work that gives or takes the right to use the memory; from now on it is (not) allocated. */
struct work *graph_memory_work(struct graph_memory *memory, bool allocate);

/* user_object.c */
struct user_reference {
	struct user_object *object;
	unsigned int count;
	struct user_reference *next;
};
bool user_references_copy(struct user_reference **to, const struct user_reference *from);
void user_references_drop(struct user_reference **references);

#endif
